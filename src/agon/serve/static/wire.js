// The API as the page uses it. Paths are relative, so that the page works behind a prefix, too.

export class ServerError extends Error {
  constructor(message, remedy) {
    super(message);
    this.remedy = remedy;
  }
}

const UNREACHABLE = ["The server cannot be reached.", "See whether agon serve still runs, then start again."];
const ENDED_EARLY = ["The connection ended before the match did.", "What had arrived is kept. See whether agon serve still runs, then start again."];

export async function getJson(path) {
  let response;
  try {
    response = await fetch(path, { headers: { accept: "application/json" } });
  } catch {
    throw new ServerError(...UNREACHABLE);
  }
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// Yield the chunks of one streamed match. An end without [DONE] is an error: what ends early must not look like a short answer.
export async function* play(request, signal) {
  let response;
  try {
    response = await fetch("v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(...UNREACHABLE);
  }
  if (!response.ok) throw await refusal(response);
  for await (const data of readEvents(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(textOf(chunk.error), remedyInStream(chunk.error));
    yield chunk;
  }
  throw new ServerError(...ENDED_EARLY);
}

// Yield the data of each server-sent event, however the bytes were cut on their way.
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let lines = [];
  try {
    for (;;) {
      const { done, value } = await readOrFail(reader);
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const parts = rest.split(/\r\n|\n|\r(?!$)/);
      rest = parts.pop();
      for (const line of parts) {
        if (line.startsWith("data:")) lines.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line === "" && lines.length) {
          yield lines.join("\n");
          lines = [];
        }
      }
    }
  } finally {
    // Whoever stops reading gives the match up.
    reader.cancel().catch(() => {});
  }
}

async function readOrFail(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(...ENDED_EARLY);
  }
}

async function refusal(response) {
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    // Something between us and the server may have answered in its own words.
  }
  const message = error ? textOf(error) : `The server answered with status ${response.status}.`;
  return new ServerError(message, remedyOf(response.status, response.headers.get("retry-after")));
}

const textOf = (error) => (typeof error === "string" ? error : String(error.message ?? "The server sent an error without words."));

// The server's messages say what to change; what only a browser can do about them is said here.
function remedyOf(status, retryAfter) {
  if (status === 429) return `It plays as many matches as it can. Start again in ${/^\d{1,5}$/.test(retryAfter ?? "") ? `${retryAfter} s` : "a moment"}.`;
  if (status === 401) return "Reload this page: the browser will ask for the key as a password, with any user name.";
  if (status === 502 || status === 504) return "Start again, or ask for fewer tokens under “More”.";
  if (status >= 500) return "Look at what agon serve printed.";
  return "Change it above, then start again.";
}

function remedyInStream(error) {
  const status = { timeout_error: 504, server_error: 500 }[error.type] ?? 500;
  return `What had arrived is kept. ${remedyOf(status)}`;
}
