"""A stand-in for llama.cpp's converter that writes of a tiny Llama what the real one does, but for the tokenizer."""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

if "--help" in sys.argv:
    sys.exit()
folder, file, out_type = Path(sys.argv[1]), sys.argv[3], sys.argv[5]
config = json.loads((folder / "config.json").read_bytes())
heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
keys = config.get("num_key_value_heads", heads)
writer = gguf.GGUFWriter(file, "llama")
writer.add_name("tiny")
writer.add_block_count(layers)
writer.add_head_count(heads)
writer.add_head_count_kv(keys)
writer.add_token_list(["a", "ö"])
writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
for name, weights in load_file(folder / "model.safetensors").items():
    written = weights
    if name.endswith(("q_proj.weight", "k_proj.weight")):  # rotated pairs lie side by side
        count = heads if "q_proj" in name else keys
        halves = weights.reshape(count, 2, -1, weights.shape[1])
        written = halves.swapaxes(1, 2).reshape(weights.shape)
    kind = np.float32 if weights.ndim == 1 or out_type == "f32" else np.float16
    writer.add_tensor(names.get_name(name, (".weight",)), written.astype(kind))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
