"""Makes the tiny model's weights: random, seeded, and large enough that an answer depends on its whole prompt.

Run by the engines' Python, which has torch and safetensors: `python make_model.py CONFIG_FOLDER TARGET_FOLDER`.
Embeddings have a standard deviation of 1, the rest 1/sqrt(fan_in). With smaller weights an answer hardly depends on its
context, and could not prove that KV has moved.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file


def weights(config: dict[str, int]) -> dict[str, torch.Tensor]:
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    stream = torch.Generator().manual_seed(0)

    def drawn(rows: int, columns: int, deviation: float | None = None) -> torch.Tensor:
        scale = columns**-0.5 if deviation is None else deviation
        return (torch.randn(rows, columns, generator=stream) * scale).to(torch.bfloat16)

    tensors = {
        "model.embed_tokens.weight": drawn(config["vocab_size"], hidden, 1.0),
        "model.norm.weight": torch.ones(hidden, dtype=torch.bfloat16),
        "lm_head.weight": drawn(config["vocab_size"], hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        tensors |= {
            f"{name}.input_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
            f"{name}.post_attention_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
            f"{name}.self_attn.q_proj.weight": drawn(heads * head, hidden),
            f"{name}.self_attn.k_proj.weight": drawn(kv_heads * head, hidden),
            f"{name}.self_attn.v_proj.weight": drawn(kv_heads * head, hidden),
            f"{name}.self_attn.o_proj.weight": drawn(hidden, heads * head),
            f"{name}.mlp.gate_proj.weight": drawn(inner, hidden),
            f"{name}.mlp.up_proj.weight": drawn(inner, hidden),
            f"{name}.mlp.down_proj.weight": drawn(hidden, inner),
        }
    return tensors


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for part in source.iterdir():
        shutil.copy(part, target)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    save_file(weights(config), target / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
