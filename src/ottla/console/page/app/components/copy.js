// Copies a text, and says that it did.
import { html, useState } from "../../vendor/preact.js";
import { IconButton } from "./button.js";

export function CopyButton({ text, label = "Copy" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await writeText(typeof text === "function" ? text() : text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<${IconButton} icon=${isCopied ? "check" : "copy"} label=${isCopied ? "Copied" : label} onClick=${copy} />`;
}

// The clipboard of browsers needs https or localhost; elsewhere the older way works.
async function writeText(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
