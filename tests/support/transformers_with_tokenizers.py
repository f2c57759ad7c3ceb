"""Small models of the transformers library with tokenizers that fit them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] i want ##ed to have a party bought cake for it . happy"
TEXT = "I wanted to have a party"


def word_pieces() -> Any:
    return transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS.split())})


def byte_pairs() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"]
    )
    tokenizer.train_from_iterator([TEXT] * 5, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def gpt2() -> Any:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=320, n_positions=40, n_embd=24, n_layer=2, n_head=3)
    ).eval()


def llama() -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=320, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
            num_attention_heads=6, num_key_value_heads=2,
        )
    ).eval()  # fmt: skip


def bert() -> Any:
    torch.manual_seed(0)
    return transformers.BertModel(
        transformers.BertConfig(
            vocab_size=len(WORDS.split()), hidden_size=24, num_hidden_layers=2,
            num_attention_heads=3, intermediate_size=40, max_position_embeddings=30,
        )
    ).eval()  # fmt: skip


def t5() -> Any:
    torch.manual_seed(0)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=320, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
        )
    ).eval()  # fmt: skip


def bart() -> Any:
    torch.manual_seed(0)
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=320, d_model=24, encoder_layers=2, decoder_layers=1,
            encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=40,
            decoder_ffn_dim=40, max_position_embeddings=40, pad_token_id=1, bos_token_id=0,
            eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
        )
    ).eval()  # fmt: skip


def word_tokenizer(count: int, *more: str) -> Any:
    """Words w5, w6, ... after five special tokens; `more` are special tokens too."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    names = [*special, *(f"w{i}" for i in range(len(special), count))]
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", mask_token="<mask>", additional_special_tokens=list(more),
    )  # fmt: skip
