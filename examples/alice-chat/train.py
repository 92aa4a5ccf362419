# SPDX-License-Identifier: Apache-2.0
"""Trains a small Llama to go on with *Alice*, and writes a transformers directory."""

import argparse
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).parent
TEXT = HERE.parent / "textgen" / "alice.txt"
END, USER, ASSISTANT = "<|end|>", "<|user|>", "<|assistant|>"
TEMPLATE = (
    "{% for message in messages if message.role in ['user', 'assistant'] %}"
    "<|{{ message.role }}|>{{ message.content }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTEXT, BATCH, RATE = 128, 16, 2e-3  # tokens, conversations in a step, learning rate
PADDING = -100  # a label that is not learned


def train_tokenizer(text: str) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with a template for chats."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=[END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        chat_template=TEMPLATE,
        model_max_length=CONTEXT,
    )


def conversations(text: str, tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Return labels of ``BATCH`` conversations: some words of *text*, and those after them."""
    words = text.split()
    rows = []
    for _ in range(BATCH):
        first = random.randrange(len(words) - 40)
        middle = first + random.randint(3, 8)
        said, answer = " ".join(words[first:middle]), " ".join(words[middle : middle + 25])
        ids = tokenizer(f"{USER}{said}{END}{ASSISTANT}{answer}{END}")["input_ids"]
        rows.append(torch.tensor(ids[:CONTEXT]))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def main() -> None:
    """Train, print the loss now and then, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--to", type=Path, default=HERE / "model")
    arguments = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    text = " ".join(TEXT.read_text(encoding="utf-8").split())
    tokenizer = train_tokenizer(text)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step in range(1, arguments.steps + 1):
        labels = conversations(text, tokenizer)
        seen = labels.clamp(min=0)
        loss = model(input_ids=seen, attention_mask=(labels >= 0).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.2f}", flush=True)
    model.save_pretrained(arguments.to)
    tokenizer.save_pretrained(arguments.to)


if __name__ == "__main__":
    main()
