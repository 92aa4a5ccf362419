// SPDX-License-Identifier: Apache-2.0
// Fields for files: pictures, sound, and a microphone.

import { wrap } from "./playground-field.js";
import { mediaOf } from "./playground-schema.js";
import { h, sizeOf } from "./playground-views.js";
import { fromBase64, Media, toWav } from "./playground-wire.js";

// A file by choosing, dropping or pasting it; sound also by the microphone.
export function fileField(form, spec, kind) {
  const media = mediaOf(spec.schema) || "*/*";
  const input = h("input", { type: "file", accept: kind === "file" ? media : `${kind}/*`, className: "pg-file" });
  const preview = h("div", { className: "pg-preview" });
  const zone = h("div", {
    className: "pg-drop",
    ondragover: (event) => event.preventDefault(),
    ondrop: (event) => {
      event.preventDefault();
      take(event.dataTransfer.files[0]);
    },
    onpaste: (event) => take(event.clipboardData.files[0]),
  }, preview, input, h("span", { className: "hint" }, "or drop or paste it here"), kind === "audio" && recorder((blob) => take(new File([blob], "recording.wav", { type: blob.type }))));
  let current;
  const nameOf = (blob) => `${kind}.${blob.type.split(/[/;+]/)[1] ?? "bin"}`;
  const take = (blob) => {
    if (!blob) return;
    put(new Media(blob, blob.name ?? nameOf(blob)));
    zone.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const put = (file) => {
    current = file;
    const url = URL.createObjectURL(file.blob);
    const type = file.blob.type;
    const shown = type.startsWith("image/") ? h("img", { src: url, alt: "" }) : type.startsWith("audio/") ? h("audio", { src: url, controls: true }) : null;
    preview.replaceChildren(...[shown, h("span", {}, `${file.name}, ${sizeOf(file.blob.size)} `), remove].filter(Boolean));
  };
  const remove = h("button", { type: "button", className: "quiet", onclick: () => {
    current = undefined;
    input.value = "";
    preview.replaceChildren();
    input.focus();
    zone.dispatchEvent(new Event("input", { bubbles: true }));
  } }, "Remove");
  input.addEventListener("change", () => take(input.files[0]));
  const field = wrap(spec, input, {
    get: (refuse) => current ?? (spec.required ? refuse("choose a file") : undefined),
    set: (value) => {
      if (value instanceof Media) return put(value);
      const text = value?.b64 ?? String(value);
      if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return field.fail("not base64");
      const blob = fromBase64(text, value?.content_type);
      put(new Media(blob, value?.name ?? nameOf(blob)));
    },
  });
  input.replaceWith(zone);
  zone.insertBefore(input, zone.children[1]);
  return field;
}

function recorder(done) {
  let stop = null;
  const button = h("button", { type: "button", className: "secondary outline", onclick: async () => {
    if (stop) return stop();
    try {
      stop = await record((blob) => {
        stop = null;
        button.textContent = "Record";
        done(blob);
      });
      button.textContent = "Stop recording";
    } catch (error) {
      button.textContent = `No microphone: ${error.message}`;
    }
  } }, "Record");
  return button;
}

// Record the microphone until the returned function is called; done gets WAV.
async function record(done) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const chunks = [];
  const recording = new MediaRecorder(stream);
  recording.ondataavailable = (event) => chunks.push(event.data);
  recording.onstop = async () => {
    stream.getTracks().forEach((track) => track.stop());
    const context = new AudioContext({ sampleRate: 16000 });
    const sound = await context.decodeAudioData(await new Blob(chunks).arrayBuffer());
    done(toWav(sound.getChannelData(0), sound.sampleRate));
    context.close();
  };
  recording.start();
  return () => recording.stop();
}

// Return a field for one file, which is the whole body.
export function makeFile(kind) {
  return fileField(null, { path: "", required: true, schema: {}, label: "File", help: "It is the body of the request." }, kind);
}
