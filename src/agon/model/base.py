"""The frozen base: where its folder is, what it weighs, which tokens end its turn.

Only safetensors are read and no remote code runs unless asked. The generation configuration's sampling defaults are
dropped (a base with `top_k: 20` must still be sampled over its whole vocabulary); only its stop tokens are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedConfig
from transformers.utils import logging as transformers_logging

from agon.config import ModelSettings
from agon.errors import ConfigError, ModelError
from agon.model.locate import INDEX_FILE, WEIGHTS_FILE, find_model_folder
from agon.model.memory import keep_freed_memory

# Turn ends that some tokenizers know and no configuration names.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|end_of_text|>")
# What a configuration says about the file and not about the function it computes.
_INCIDENTAL_KEYS = frozenset(
    {"_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "attn_implementation"}
)
# Where composite models keep their text part, and where a text model looks for it.
TEXT_PART_KEYS = {
    r"^(model\.language_model|language_model\.model)\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
}
"""How the names of a composite model's text weights become those of the text model alone: pattern and replacement."""


@dataclass(frozen=True, slots=True)
class BaseIdentity:
    """What tells one base from another: the name it was asked for by, and a hash of configuration and weights."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Base:
    """A frozen language model in evaluation mode, with all that the stages need to know about it.

    `model(input_ids)` gives logits. An `AdapterPair` made from it decides which adapter, if any, those logits come from.
    """

    model: Any
    tokenizer: Any
    identity: BaseIdentity
    stop_ids: tuple[int, ...]
    context_length: int
    device: torch.device
    dtype: torch.dtype

    @property
    def num_parameters(self) -> int:
        """Parameters of the base, tied ones counted once, adapters left out."""
        return sum(parameter.numel() for _, parameter in base_parameters(self.model))


def base_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters that belong to the base and not to an adapter."""
    for name, parameter in model.named_parameters():
        if ".lora_" not in name:
            yield name, parameter


def load_base(settings: ModelSettings) -> Base:
    """Load a model folder, a Hub model or the embedded base, frozen and in evaluation mode.

    Raises:
        ModelError: the folder or Hub model is missing, gated, damaged, has pickled weights only, or has no stop token.
        ConfigError: the device asked for is not there.
    """
    device = _device(settings.device)
    if device.type == "cpu":
        keep_freed_memory()
    folder = find_model_folder(settings.base, settings.revision)
    config = load_config(folder, settings)
    dtype = _dtype(settings.dtype, device)
    model = _load_weights(folder, config, settings, dtype).to(device)
    tokenizer = load_tokenizer(folder, settings)
    identity = identify(folder, settings.base)
    return wrap_model(model, tokenizer, identity=identity, config_stop_ids=generation_stop_ids(folder))


def wrap_model(model: Any, tokenizer: Any, *, identity: BaseIdentity, config_stop_ids: tuple[int, ...] = ()) -> Base:
    """Freeze a model that is already in memory and describe it.

    Raises:
        ModelError: no stop token or no context length is known, or the tokenizer has more tokens than the model.
    """
    model.requires_grad_(False).eval()
    config = model.config.get_text_config()
    stop_ids = all_stop_ids(config, tokenizer, config_stop_ids)
    if not stop_ids:
        raise ModelError(f"{identity.name} names no end token: set eos_token_id in its generation_config.json")
    rows = model.get_input_embeddings().weight.shape[0]
    if tokenizer is not None and len(tokenizer) > rows:
        raise ModelError(
            f"{identity.name}: the tokenizer has {len(tokenizer)} tokens but the model only {rows} rows: "
            "use the tokenizer that belongs to the model"
        )
    model.generation_config = GenerationConfig(eos_token_id=list(stop_ids))
    parameter = next(model.parameters())
    return Base(
        model=model,
        tokenizer=tokenizer,
        identity=identity,
        stop_ids=stop_ids,
        context_length=_context_length(config, tokenizer, identity.name),
        device=parameter.device,
        dtype=parameter.dtype,
    )


def identify(folder: Path, name: str) -> BaseIdentity:
    """Hash the configuration and the weights of the base in a folder."""
    return BaseIdentity(name=name, sha256=_hash_folder(folder))


def all_stop_ids(config: Any, tokenizer: Any, config_stop_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return every token that ends a completion: those of both configurations, and the turn ends that the tokenizer knows."""
    return tuple(sorted({*config_stop_ids, *_ids(config.eos_token_id), *_tokenizer_stop_ids(tokenizer)}))


def hash_parameters(model: nn.Module) -> str:
    """Hash every base parameter, bit for bit."""
    digest = hashlib.sha256()
    for name, parameter in base_parameters(model):
        digest.update(name.replace(".base_layer", "").encode())
        digest.update(tensor_bytes(parameter))
    return digest.hexdigest()


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """Return a tensor's bytes as they stand in memory."""
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().reshape(-1).data


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError('model.device is "cuda", but torch sees no CUDA device here: use "auto" or "cpu"')
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError('model.device is "mps", but torch sees no such device here: use "auto" or "cpu"')
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def load_config(folder: Path, settings: ModelSettings) -> Any:
    """Read the configuration of a model folder, whole where the model is a composite one.

    The kernels that it asks for are left out, as sampling defaults are: they may be packages that are not here, or code of the Hub's.

    Raises:
        ModelError: it cannot be used, or needs Python code that it brings and that may not run.
    """
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=settings.trust_remote_code)
    except MemoryError:
        raise
    except Exception as error:  # whatever the library makes of a file that may hold anything
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{settings.base} brings its own Python code: set model.trust_remote_code=true if you trust it"
            ) from None
        raise ModelError(f"{settings.base}: its config.json cannot be used ({_first_line(error)})") from None
    weights = getattr(config.get_text_config(), "transformers_weights", None)
    if weights not in (None, WEIGHTS_FILE, INDEX_FILE):
        raise ModelError(
            f"{settings.base}: its config.json names other weights (transformers_weights: {weights!r}) than {WEIGHTS_FILE} or "
            f"{INDEX_FILE}: give a folder whose weights have these names"
        )
    # A model without a text part may carry a table of that name all the same.
    parts: list[Any] = [part for part in (config, config.get_text_config()) if isinstance(part, PreTrainedConfig)]
    for part in parts:
        part._attn_implementation = None
    return config


def _load_weights(folder: Path, config: Any, settings: ModelSettings, dtype: torch.dtype) -> Any:
    # A composite model (text, vision, audio) is used for its text part alone.
    text_config = config.get_text_config()
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # its table of missing keys is told as an error below
    transformers_logging.disable_progress_bar()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=text_config,
            key_mapping=None if text_config is config else TEXT_PART_KEYS,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=settings.trust_remote_code,
            output_loading_info=True,
        )
    except MemoryError:
        raise
    except Exception as error:  # as above
        raise ModelError(
            f"{settings.base}: its weights cannot be loaded ({_first_line(error)}): get the model again, or give another"
        ) from None
    finally:
        transformers_logging.set_verbosity(verbosity)
    model, info = loaded
    for kind in ("missing_keys", "mismatched_keys"):
        if info[kind]:
            keys = sorted(str(key) for key in info[kind])
            raise ModelError(
                f"{settings.base}: {len(keys)} weights have {kind.replace('_', ' ')} (first: {keys[0]}), "
                "so they would be random: get the model again, or give another"
            )
    return model


def load_tokenizer(folder: Path, settings: ModelSettings) -> Any:
    """Load the tokenizer of a model folder.

    Raises:
        ModelError: there is none that can be used.
    """
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=settings.trust_remote_code)
    except Exception as error:
        raise ModelError(f"{settings.base}: its tokenizer cannot be loaded ({_first_line(error)})") from None


def generation_stop_ids(folder: Path) -> tuple[int, ...]:
    """Return the end tokens that a folder's generation_config.json names.

    Raises:
        ModelError: the file is damaged.
    """
    path = folder / "generation_config.json"
    if not path.is_file():
        return ()
    try:
        return _ids(json.loads(path.read_text(encoding="utf-8")).get("eos_token_id"))
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON ({_first_line(error)})") from None


def _tokenizer_stop_ids(tokenizer: Any) -> tuple[int, ...]:
    if tokenizer is None:
        return ()
    known = tokenizer.get_added_vocab()
    return (*_ids(tokenizer.eos_token_id), *(known[token] for token in _TURN_ENDS if token in known))


def _ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def _context_length(config: Any, tokenizer: Any, name: str) -> int:
    length = getattr(config, "max_position_embeddings", None) or getattr(tokenizer, "model_max_length", None)
    # transformers writes 1e30 for "no limit known".
    if not length or length > 1e9:
        raise ModelError(f"{name} states no context length: set max_position_embeddings in its config.json")
    return int(length)


def _hash_folder(folder: Path) -> str:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in config.items() if key not in _INCIDENTAL_KEYS}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for file_hash in sorted(_hash_file(path) for path in folder.glob("*.safetensors")):
        digest.update(file_hash.encode())
    return digest.hexdigest()


def _hash_file(path: Path) -> str:
    # The Hub's cache names a large file by its SHA-256, so that a model of many gigabytes need not be read twice.
    blob = path.resolve().name
    if path.is_symlink() and len(blob) == 64 and all(digit in "0123456789abcdef" for digit in blob):
        return blob
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
