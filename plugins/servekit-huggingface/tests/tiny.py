# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, saved as transformers saves its models."""

import json

from servekit_huggingface.library import torch, transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

END, USER, ASSISTANT = "<|end|>", "<|user|>", "<|assistant|>"
WINDOW = 64  # tokens that the models take
CORPUS = [
    "once upon a time there was a small model that knew very few words",
    "the quick brown fox jumps over the lazy dog while it rains",
    "été naïve façade, 東京 and emoji 🙂 are bytes to it",
] * 3
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message.role) }}{% endif %}"
    "{{ '<|user|>' if message.role != 'assistant' else '<|assistant|>' }}"
    "{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SMALL = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": WINDOW,
    "initializer_range": 0.3,  # so that no two tokens are about as likely
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
LLAMA = {**SMALL, "num_key_value_heads": 2}
GPT2 = {
    "vocab_size": 400,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": WINDOW,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
BLOOM = {
    "vocab_size": 400,
    "hidden_size": 32,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
#: by name: the configuration of a model that generates
GENERATORS = {
    "llama": lambda: transformers.LlamaConfig(**LLAMA),
    "gpt2": lambda: transformers.GPT2Config(**GPT2),
    "mistral": lambda: transformers.MistralConfig(**LLAMA, sliding_window=8),
    "gemma2": lambda: transformers.Gemma2Config(**LLAMA, head_dim=8, sliding_window=8),
    "qwen3": lambda: transformers.Qwen3Config(**LLAMA, head_dim=8),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **LLAMA, head_dim=8, sliding_window=8, num_local_experts=4, num_experts_per_tok=2
    ),
    "bloom": lambda: transformers.BloomConfig(**BLOOM),
}


def tokenizer():
    """Return a byte-level tokenizer, trained on ``CORPUS``."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [END, USER, ASSISTANT]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(CORPUS, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, eos_token=END, pad_token=END, model_max_length=WINDOW
    )


def sentence_tokenizer():
    """Return the same with the end after each text, as BERT has its marks."""
    found = tokenizer()
    found.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{USER} $A {END}", pair=f"{USER} $A {END} $B {END}",
        special_tokens=[(END, 0), (USER, 1)],
    )  # fmt: skip
    return found


def save_generator(directory, name="llama", *, template=None, defaults=None):
    """Write a model that generates, *name* of ``GENERATORS``."""
    text = tokenizer()
    text.chat_template = template
    config = GENERATORS[name]()
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for key, value in (defaults or {}).items():
        setattr(model.generation_config, key, value)
    model.save_pretrained(directory)
    text.save_pretrained(directory)
    return directory


def save_bert(directory, kind, **more):
    """Write a BERT of the class *kind*."""
    torch.manual_seed(7)
    config = transformers.BertConfig(**SMALL, **more)
    getattr(transformers, kind)(config).save_pretrained(directory)
    sentence_tokenizer().save_pretrained(directory)
    return directory


def save_vit(directory):
    """Write an image classifier and its image processor."""
    torch.manual_seed(7)
    names = dict(enumerate(["cat", "dog", "fox"]))
    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
        initializer_range=0.3,
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )
    transformers.ViTForImageClassification(config).save_pretrained(directory)
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 16, "width": 16},
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.3, 0.4],
        "resample": 2,
    }

    (directory / "preprocessor_config.json").write_text(json.dumps(processor))
    return directory
