// A stream of server-sent events that ends: unlike EventSource it tells why it was refused, and does not begin again.
import { ApiProblem, apiAddress } from "../api.js";
import { expire } from "../session.js";

// Calls `onEvent(name, data)` for each event until the stream ends; throws an ApiProblem, or AbortError after the signal.
export async function readEvents(path, query, signal, onEvent) {
  let response;
  try {
    response = await fetch(apiAddress(path, query), { headers: { accept: "text/event-stream" }, signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : gone();
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    if (response.status === 401) expire();
    throw new ApiProblem(response.status, answer?.error ?? `The console answered ${response.status}.`, answer?.advice);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : gone();
    });
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      tell(text.slice(0, end), onEvent);
      text = text.slice(end + 2);
    }
  }
}

function tell(lines, onEvent) {
  let name = "message";
  let data = "";
  for (const line of lines.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return; // a comment keeps the connection alive
  const found = JSON.parse(data);
  if (name === "failed") throw new ApiProblem(0, found.error, found.advice);
  if (name === "session_ended") expire();
  onEvent(name, found);
}

const gone = () => new ApiProblem(0, "The console does not answer.", "It may have been stopped; start again when it is back.");
