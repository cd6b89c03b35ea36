#!/usr/bin/env python3
"""Prints the table of docs/families.md that says which tests each family with experts, latent attention or recurrent layers has.

    python3 tests/models/hugging_face/list_checks.py

Suites of tests are instantiated over the folders and files that this script lists, so a family has a test if its file is there.
"""
import re
from pathlib import Path

FOLDERS = Path(__file__).resolve().parent
GGUF = FOLDERS.parent / "gguf" / "families"
FAMILIES = ["mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "gemma4", "gpt_oss", "glm4_moe", "minimax_m2", "deepseek_v2",
            "deepseek_v3", "olmoe", "granitemoehybrid", "bamba", "nemotron_h", "mamba2", "falcon_h1", "lfm2"]
EXPERT_MESHES = (FOLDERS.parents[1] / "distributed/training/expert_parallel_test.cpp").read_text()
FEATURES = re.findall(r'\{"(\w+)", "(\w+)", "[^"]*"\}[,}]', (FOLDERS.parent / "family_features_test.cpp").read_text())


def of_family(folder, family):
    names = [path.name.removesuffix(".gguf") for path in sorted(folder.iterdir()) if path.is_dir() or path.suffix == ".gguf"]
    return [name for name in names if name == family or name.startswith(family + "_") and not any(
        name == other or name.startswith(other + "_") for other in FAMILIES if other != family and other.startswith(family))]


def main():
    print("| family | checkpoints | GGUF | features turned off | `expert=N` |\n|---|---|---|---|---|")
    for family in FAMILIES:
        cells = [", ".join(f"`{name}`" for name in of_family(folder, family)) or "no" for folder in (FOLDERS, GGUF)]
        features = dict.fromkeys(setting for name, setting in FEATURES if name in of_family(FOLDERS, family))
        cells += [", ".join(f"`{setting}`" for setting in features) or "no", "yes" if f'"{family}"' in EXPERT_MESHES else "no"]
        print(f"| `{family}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
