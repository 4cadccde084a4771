import random

from agon.answers import reasoning_end


def test_reasoning_ends_on_the_page_where_it_ends_for_verdicts(open_page):
    page = open_page()
    pieces = [
        "<think>",
        "</think>",
        "<|channel>thought",
        "<channel|>",
        "so ",
        "\n",
        "<answer>4</answer>",
        "<b>",
        "<thinking>",
    ]
    rng = random.Random(0)
    texts = ["".join(rng.choices(pieces, k=rng.randint(0, 8))) for _ in range(400)]
    split = "async (texts) => { const m = await import('/arena/static/text.js'); return texts.map((text) => m.splitReasoning(text).visible); }"
    assert page.evaluate(split, texts) == [text[reasoning_end(text) :].lstrip() for text in texts]


def test_a_stream_is_read_the_same_however_its_bytes_were_cut(open_page):
    page = open_page()
    stream = ': drafting\n\ndata: {"a": "é😀"}\n\ndata:x\ndata: y\r\n\r\n: more\n\ndata: [DONE]\n\n'
    read = """async ([bytes, size]) => {
      const { readEvents } = await import("/arena/static/wire.js");
      const all = new Uint8Array(bytes);
      const body = new ReadableStream({ start(controller) {
        for (let at = 0; at < all.length; at += size) controller.enqueue(all.slice(at, at + size));
        controller.close();
      } });
      const out = [];
      for await (const data of readEvents(body)) out.push(data);
      return out;
    }"""
    for size in (1, 2, 3, 7, 1000):
        assert page.evaluate(read, [list(stream.encode()), size]) == ['{"a": "é😀"}', "x\ny", "[DONE]"]
