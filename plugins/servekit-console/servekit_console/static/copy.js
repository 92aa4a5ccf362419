// SPDX-License-Identifier: Apache-2.0

// Copy *text*, and return whether the browser did. Its clipboard is there on secure pages alone: HTTPS and loopback.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement("textarea")
    area.value = text
    area.className = "hidden"
    document.body.append(area)
    area.select()
    const isCopied = document.execCommand("copy")
    area.remove()
    return isCopied
  }
}
