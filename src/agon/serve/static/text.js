// The marks of reasoning, by the rules of agon.answers: what stands behind the last closing one is visible, and nothing is while one is open.
const OPENS = ["<think>", "<|channel>thought"];
const CLOSES = ["</think>", "<channel|>"];
const WITHHELD = "[withheld]";

const lastEnd = (text, mark) => (text.includes(mark) ? text.lastIndexOf(mark) + mark.length : 0);

export function splitReasoning(text) {
  const closed = Math.max(...CLOSES.map((mark) => lastEnd(text, mark)));
  const opened = Math.max(...OPENS.map((mark) => text.lastIndexOf(mark)));
  const start = text.trimStart();
  const begins = start !== "" && OPENS.some((mark) => mark.startsWith(start));
  const isOpen = begins || (opened >= 0 && opened >= closed);
  const end = isOpen ? text.length : closed;
  return { reasoning: withoutMarks(text.slice(0, end)), visible: text.slice(end).trimStart(), isOpen };
}

function withoutMarks(text) {
  let inner = text.trimStart();
  const open = OPENS.find((mark) => inner.startsWith(mark) || (inner !== "" && mark.startsWith(inner)));
  if (open) inner = inner.slice(open.length);
  const close = CLOSES.find((mark) => inner.endsWith(mark));
  return (close ? inner.slice(0, -close.length) : inner).trimStart();
}

// A summary in parts: text as it is, and null for each place where an answer was taken out.
export function splitWithheld(summary) {
  return summary.split(WITHHELD).flatMap((part, at) => (at ? [null, part] : [part])).filter((part) => part !== "");
}

// What the slots of a countdown problem stand for: the numbers in falling order, as the base reads them.
export function readCountdown(problem) {
  const found = /^\s*(?:[a-c]\s*)?(\d{1,9})[\s,]+(?:[a-c]\s*)?(\d{1,9})[\s,]+(?:[a-c]\s*)?(\d{1,9})\s*(?:=|->|:)\s*(\d{1,9})\s*$/.exec(problem);
  if (!found) return null;
  const [a, b, c] = found.slice(1, 4).map(Number).sort((left, right) => right - left);
  return { a, b, c, target: Number(found[4]) };
}

export function inNumbers(answer, slots) {
  if (!slots || !/^[abc()+\-*\s]{1,60}$/.test(answer)) return null;
  const signs = { "-": " − ", "+": " + ", "*": " × " };
  return answer.replace(/\s/g, "").replace(/[abc]/g, (slot) => slots[slot]).replace(/[-+*]/g, (sign) => signs[sign]);
}
