// SPDX-License-Identifier: Apache-2.0
// A conversation, for models that take a list of messages.

import { h } from "./playground-views.js";
import { FieldError } from "./playground-field.js";

const ROLES = ["assistant", "developer", "system", "tool", "user"];

// Return a field whose value is a conversation; *send* sends it.
export function makeChat(value, model, send) {
  // not made of the schema, and without parts such as pictures
  const isTold = value?.messages?.every((each) => ROLES.includes(each.role) && typeof each.content === "string");
  const { messages = [], ...rest } = isTold ? value : { model };
  let said = messages.slice(0, -1);
  const log = h("div", { className: "pg-chat", role: "log", "aria-label": "Conversation", tabIndex: 0 });
  const problem = h("small", { className: "pg-problem" });
  const input = h("textarea", {
    id: "pg-say", rows: 2, value: messages.at(-1)?.role === "user" ? String(messages.at(-1).content) : "",
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      send();
    },
  });
  let reply = null;
  const put = ({ role, content }) => {
    const bubble = h("div", { className: `pg-said pg-${role}` }, h("span", { className: "hint" }, role), h("p", {}, String(content ?? "")));
    log.append(bubble);
    log.scrollTop = log.scrollHeight;
    return bubble.lastElementChild;
  };
  const clear = h("button", { type: "button", className: "quiet", onclick: () => {
    said = [];
    log.replaceChildren();
  } }, "Start again");
  said.forEach(put);
  const field = {
    element: h("div", {}, log, h("label", { htmlFor: "pg-say" }, "Say", input), problem, h("div", { className: "pg-actions" }, h("button", { type: "button", onclick: send }, "Say it"), clear)),
    label: "Say",
    get: () => {
      if (!input.value.trim()) throw new FieldError(field, "fill this in");
      return { ...rest, messages: [...said, { role: "user", content: input.value }] };
    },
    set: () => {},
    fail: (message) => (problem.textContent = message),
    focus: () => input.focus(),
    // words of the answer, as they come
    heard: (words) => {
      reply ??= begin();
      reply.append(words);
      log.scrollTop = log.scrollHeight;
    },
    stopped: () => reply?.after(h("span", { className: "hint" }, "stopped")),
    // the whole answer; null if there is none, or no more of it
    answered: (output) => {
      if (!reply) {
        if (output === null) return;
        (reply = begin()).append(contentOf(output));
      }
      said.push({ role: "assistant", content: reply.textContent });
      reply = null;
      input.value = "";
      input.focus();
    },
  };
  const begin = () => {
    const message = { role: "user", content: input.value };
    said.push(message);
    put(message);
    return put({ role: "assistant", content: "" });
  };
  return field;
}

function contentOf(output) {
  const found = output?.choices?.[0]?.message?.content ?? output?.content ?? output;
  if (Array.isArray(found)) return found.filter((each) => typeof each === "string").join("");
  return typeof found === "string" ? found : JSON.stringify(found);
}
