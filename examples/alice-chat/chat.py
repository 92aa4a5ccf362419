# SPDX-License-Identifier: Apache-2.0
"""Streams an answer to a terminal: pip install openai, then python chat.py "Alice was"."""

import sys

from openai import OpenAI

said = sys.argv[1] if len(sys.argv) > 1 else "Alice was beginning to get"
address = sys.argv[2] if len(sys.argv) > 2 else "localhost:8080"
client = OpenAI(base_url=f"http://{address}/v1", api_key="none")
stream = client.chat.completions.create(
    model="alice-chat",
    messages=[{"role": "user", "content": said}],
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
        if choice.finish_reason:
            print(f"\n({choice.finish_reason}", end="")
    if chunk.usage:
        print(f", {chunk.usage.completion_tokens} tokens)")
