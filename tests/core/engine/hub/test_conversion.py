"""The command by which a person converts pickled weights, told with the refusal of such a model."""

import shlex
from pathlib import Path

import torch

from core.engine.environment import prepare_torchvision
from core.services.hub import conversion, standing

prepare_torchvision()

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}


def test_it_makes_a_model_that_hone_takes(tmp_path, monkeypatch):
    from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM, BertTokenizer

    monkeypatch.chdir(tmp_path)
    config = BertConfig(vocab_size=5, **SMALL)
    pickled = BertForMaskedLM(config)
    config.save_pretrained("old")
    torch.save(pickled.state_dict(), "old/pytorch_model.bin")
    words = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))}
    BertTokenizer(vocab=words).save_pretrained("old")
    _python, flag, code = shlex.split(conversion("old", "fill-mask"))
    assert flag == "-c"
    exec(code, {})
    names = {path.name for path in Path("old-safetensors").iterdir()}
    assert standing("old-safetensors", names).refusal == ""
    assert "tokenizer_config.json" in names
    converted = AutoModelForMaskedLM.from_pretrained("old-safetensors").state_dict()
    assert all(torch.equal(converted[name], value) for name, value in pickled.state_dict().items())
