// Texts of strangers, as they are: characters that are not seen, or that turn the text around, are shown by their names.
import { html } from "../../vendor/preact.js";

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const NAMES = {
  "0000": "NULL",
  "00AD": "SOFT HYPHEN",
  "200B": "ZERO WIDTH SPACE",
  "200C": "ZERO WIDTH NON-JOINER",
  "200D": "ZERO WIDTH JOINER",
  "200E": "LEFT-TO-RIGHT MARK",
  "200F": "RIGHT-TO-LEFT MARK",
  "202A": "LEFT-TO-RIGHT EMBEDDING",
  "202B": "RIGHT-TO-LEFT EMBEDDING",
  "202C": "POP DIRECTIONAL FORMATTING",
  "202D": "LEFT-TO-RIGHT OVERRIDE",
  "202E": "RIGHT-TO-LEFT OVERRIDE",
  "2066": "LEFT-TO-RIGHT ISOLATE",
  "2067": "RIGHT-TO-LEFT ISOLATE",
  "2068": "FIRST STRONG ISOLATE",
  "2069": "POP DIRECTIONAL ISOLATE",
  FEFF: "BYTE ORDER MARK",
};
// More of them in one text are shown without an element for each.
const MAX_MARKS = 300;

const codeOf = (character) => character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");

// The text in pieces: strings, and a mark for each odd character.
export function withMarks(text) {
  ODD.lastIndex = 0;
  if (!ODD.test(text)) return text;
  const pieces = [];
  let end = 0;
  let count = 0;
  ODD.lastIndex = 0;
  for (let found; (found = ODD.exec(text)) !== null; ) {
    if (count === MAX_MARKS) {
      pieces.push(text.slice(end).replace(ODD, (character) => `[U+${codeOf(character)}]`));
      return pieces;
    }
    const code = codeOf(found[0]);
    pieces.push(text.slice(end, found.index), html`<span class="odd" title=${NAMES[code] ?? "a character that is not seen"}>U+${code}</span>`);
    end = found.index + 1;
    count += 1;
  }
  pieces.push(text.slice(end));
  return pieces;
}

// The same in one line.
export const inOneLine = (text) => withMarks(text.replace(/\r?\n/g, "↵").replace(/\t/g, "⇥"));
