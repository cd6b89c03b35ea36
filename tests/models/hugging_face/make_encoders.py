#!/usr/bin/env python3
"""Makes the small encoders in the folder encoders beside this file with transformers, and encoders/expected.json with their results.

    python3 tests/models/hugging_face/make_encoders.py     needs torch, transformers, tokenizers and peft

Weights are random. Results are those of transformers in f64; `noise` is the greatest distance of its f32 results from them. Rows of a
batch have different lengths and are padded. `losses` are those of ten steps of AdamW. `vectors` are made as sentence-transformers
makes them: pooling over the tokens that are not padding, linear layers, normalization.
"""
import json
import shutil
from pathlib import Path

import torch
import transformers as T
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = Path(__file__).parent / "encoders"
LENGTHS = [23, 9, 1]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = ["the cat sat on a mat", "A dog!", "", "zebras quickly jumped over nine lazy frogs", "cats"]
PAIRS = [["what is a cat", "the cat sat on a mat"], ["dogs", "A dog! zebras quickly jumped over nine lazy frogs"],
         ["zebras quickly jumped over nine lazy frogs", "dog"]]
SIZES = dict(vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=40)
ROBERTA = dict(SIZES, type_vocab_size=1, layer_norm_eps=1e-5)
DISTIL = dict(vocab_size=61, dim=16, hidden_dim=24, n_layers=2, n_heads=2, max_position_embeddings=40)
MODERN = dict(SIZES, num_hidden_layers=3, local_attention=6, global_attn_every_n_layers=2, pad_token_id=0, norm_bias=True,
              attention_bias=True, mlp_bias=True, classifier_bias=True, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
              rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}})
QWEN = dict(SIZES, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None)

MODELS = {
    "bert": ("BertModel", T.BertConfig(**SIZES)),
    "bert_dense": ("BertModel", T.BertConfig(**dict(SIZES, num_hidden_layers=1))),
    "bert_cross": ("BertForSequenceClassification", T.BertConfig(**SIZES, num_labels=1)),
    "bert_mlm": ("BertForMaskedLM", T.BertConfig(**dict(SIZES, hidden_act="gelu_new"))),
    "bert_tokens": ("BertForTokenClassification", T.BertConfig(**dict(SIZES, hidden_act="relu"), num_labels=3)),
    "xlm_roberta": ("XLMRobertaModel", T.XLMRobertaConfig(**ROBERTA)),
    "xlm_roberta_cross": ("XLMRobertaForSequenceClassification", T.XLMRobertaConfig(**ROBERTA, num_labels=1)),
    "roberta_classes": ("RobertaForSequenceClassification", T.RobertaConfig(**ROBERTA, num_labels=3)),
    "roberta_mlm": ("RobertaForMaskedLM", T.RobertaConfig(**ROBERTA)),
    "distilbert_labels": ("DistilBertForSequenceClassification", T.DistilBertConfig(
        **DISTIL, num_labels=4, problem_type="multi_label_classification")),
    "distilbert_mlm": ("DistilBertForMaskedLM", T.DistilBertConfig(**DISTIL)),
    "mpnet": ("MPNetModel", T.MPNetConfig(**SIZES)),
    "mpnet_mlm": ("MPNetForMaskedLM", T.MPNetConfig(**SIZES)),
    "modernbert": ("ModernBertModel", T.ModernBertConfig(**dict(MODERN, norm_bias=False, attention_bias=False, mlp_bias=False))),
    "modernbert_mlm": ("ModernBertForMaskedLM", T.ModernBertConfig(**MODERN)),
    "modernbert_cross": ("ModernBertForSequenceClassification", T.ModernBertConfig(**MODERN, num_labels=1, classifier_pooling="mean")),
    "qwen3_embedding": ("Qwen3Model", T.Qwen3Config(**QWEN)),
}

# Folders of sentence-transformers: the pooling, whether prompts count, linear layers (size, activation), normalization, the longest
# text and the prompts.
POOL = "sentence_transformers.models."
SENTENCES = {
    "bert": dict(pooling=["mean"], normalize=True, longest=16, prompts={"query": "find: ", "document": ""}),
    "bert_dense": dict(pooling=["cls", "max"], include_prompt=False, dense=[(12, "Tanh"), (8, None)], longest=None,
                       prompts={"query": "find: "}, default="query"),
    "xlm_roberta": dict(pooling=["cls"], normalize=True, longest=20, prompts={}),
    "mpnet": dict(pooling=["mean_sqrt_len_tokens", "weightedmean"], include_prompt=False, longest=None, prompts={"query": "find: "}),
    "qwen3_embedding": dict(pooling=["lasttoken"], normalize=True, longest=None, prompts={"query": "find: "}),
}
ACTIVATIONS = {"Tanh": "torch.nn.modules.activation.Tanh", None: "torch.nn.modules.linear.Identity"}


def word_piece(kind):
    words = ["the", "cat", "##s", "dog"]
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + c for c in LETTERS if c != "s"), "!", *words]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if kind == "last":
        tokenizer.post_processor = processors.TemplateProcessing(single="$A [SEP]", pair="$A $B:1 [SEP]:1", special_tokens=[("[SEP]", 3)])
    elif kind == "bert":
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return T.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
                                     mask_token="[MASK]", model_max_length=40)


def unigram(kind):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *LETTERS, "!", "\u2581the", "\u2581cat", "at", "\u2581d", "og", "er"]
    scores = [0.0] * 4 + [-3.0 - 0.1 * i for i in range(len(pieces) - 4)]
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores)), unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    if kind == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return T.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>",
                                     bos_token="<s>", eos_token="</s>", model_max_length=38)


TOKENIZERS = {"bert": lambda: word_piece("template"), "bert_dense": lambda: word_piece("bert"), "bert_cross": lambda: word_piece("bert"),
              "xlm_roberta": lambda: unigram("template"), "xlm_roberta_cross": lambda: unigram("roberta"),
              "mpnet": lambda: unigram("template"), "modernbert_cross": lambda: word_piece("template"),
              "modernbert": lambda: word_piece("template"), "qwen3_embedding": lambda: word_piece("last")}


def write_sentence_files(folder, name, weights):
    about = SENTENCES[name]
    kinds = ["Transformer", "Pooling"] + ["Dense"] * len(about.get("dense", [])) + (["Normalize"] if about.get("normalize") else [])
    paths = ["" if i == 0 else f"{i}_{kind}" for i, kind in enumerate(kinds)]
    write = lambda file, contents: (folder / file).write_text(json.dumps(contents, indent=2))
    write("modules.json", [{"idx": i, "name": str(i), "path": path, "type": POOL + kind} for i, (kind, path) in enumerate(zip(kinds, paths))])
    write("sentence_bert_config.json", {"max_seq_length": about["longest"], "do_lower_case": False})
    write("config_sentence_transformers.json", {"__version__": {"sentence_transformers": "5.0.0"}, "prompts": about["prompts"],
                                                "default_prompt_name": about.get("default"), "similarity_fn_name": "cosine"})
    for path in paths[1:]:
        (folder / path).mkdir()
    modes = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    write("1_Pooling/config.json", {"word_embedding_dimension": 16, **{
        "pooling_mode_" + mode: mode.removesuffix("_tokens").removesuffix("_token") in [m.removesuffix("_tokens") for m in about["pooling"]]
        for mode in modes}, "include_prompt": about.get("include_prompt", True)})
    for i, (layer, (size, activation)) in enumerate(zip(weights, about.get("dense", []))):
        write(f"{i + 2}_Dense/config.json", {"in_features": layer["linear.weight"].shape[1], "out_features": size, "bias": True,
                                             "activation_function": ACTIVATIONS[activation]})
        from safetensors.torch import save_file
        save_file({key: value.float().contiguous() for key, value in layer.items()}, folder / f"{i + 2}_Dense/model.safetensors")


def pooled(about, hidden, mask, prompt):
    """Pooling, Dense and Normalize of sentence-transformers."""
    if not about.get("include_prompt", True):
        mask = mask.clone()
        mask[:, :prompt] = 0
    wide = mask.unsqueeze(-1).to(hidden.dtype)
    order = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    parts = []
    for mode in sorted(about["pooling"], key=order.index):
        if mode == "cls":
            parts.append(hidden[:, 0])
        elif mode == "max":
            parts.append(hidden.masked_fill(wide == 0, -1e9).max(1)[0])
        elif mode == "lasttoken":
            last = (mask * torch.arange(1, mask.shape[1] + 1)).argmax(1)
            parts.append((hidden * wide)[torch.arange(len(hidden)), last])
        else:
            weights = wide * torch.arange(1, mask.shape[1] + 1).view(1, -1, 1) if mode == "weightedmean" else wide
            total = torch.clamp(weights.sum(1), min=1e-9)
            parts.append((hidden * weights).sum(1) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total))
    return torch.cat(parts, 1)


def vectors(model, tokenizer, about, weights, prompt):
    longest = min(x for x in (about["longest"], tokenizer.model_max_length) if x)
    batch = tokenizer([prompt + text for text in TEXTS], padding=True, truncation=True, max_length=longest, return_tensors="pt",
                      padding_side="right", return_token_type_ids=True)
    prompt_length = len(tokenizer(prompt)["input_ids"]) - 1 if prompt else 0
    result = pooled(about, hidden_of(model, batch), batch["attention_mask"], prompt_length)
    for layer, (_, activation) in zip(weights, about.get("dense", [])):
        result = torch.nn.functional.linear(result, layer["linear.weight"].to(result.dtype), layer["linear.bias"].to(result.dtype))
        result = result.tanh() if activation == "Tanh" else result
    if about.get("normalize"):
        result = torch.nn.functional.normalize(result, p=2, dim=1)
    rows = [ids[:length] for ids, length in zip(batch["input_ids"].tolist(), batch["attention_mask"].sum(1).tolist())]
    return rows, result


def arguments(model, batch):
    takes_types = type(model).__name__.startswith(("BertModel", "BertFor"))
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"],
            **({"token_type_ids": batch["token_type_ids"]} if takes_types else {})}


def hidden_of(model, batch):
    return getattr(model, model.base_model_prefix, model)(**arguments(model, batch))[0]


def batch_of(padding):
    torch.manual_seed(1)
    ids = torch.randint(5, 61, (3, max(LENGTHS)))
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)).long()
    types = (torch.arange(max(LENGTHS)) >= torch.tensor([11, 4, 1]).unsqueeze(1)).long()
    return {"input_ids": torch.where(mask == 1, ids, padding), "attention_mask": mask, "token_type_ids": types * mask}


def targets_of(name, model):
    torch.manual_seed(2)
    config = model.config
    if "ForSequence" not in type(model).__name__:
        size = 61 if "MaskedLM" in type(model).__name__ else config.num_labels
        mask = batch_of(0)["attention_mask"]
        return torch.where(mask == 1, torch.randint(0, size, mask.shape), -100)
    if config.num_labels == 1:
        return torch.tensor([0.25, -1.0, 2.0])
    if config.problem_type == "multi_label_classification":
        return torch.randint(0, 2, (3, config.num_labels)).float()
    return torch.tensor([0, 2, 1])


def losses(model, batch, targets, dtype):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-5, weight_decay=0.01)
    if targets.dtype == torch.float32:
        targets = targets.to(dtype)
    steps = []
    for _ in range(10):
        loss = model(**arguments(model, batch), labels=targets).loss
        steps.append(float(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return steps


def fresh(folder, cls, dtype):
    kind = getattr(T, cls)
    return kind.from_pretrained(folder).to(dtype).eval()


def real(values, mask):
    return [row[:length].tolist() for row, length in zip(values, mask.sum(1).tolist())]


def distance(a, b):
    return float((a.double() - b.double()).abs().max())


@torch.no_grad()
def results(folder, name, cls):
    exact, single = fresh(folder, cls, torch.float64), fresh(folder, cls, torch.float32)
    batch = batch_of(exact.config.pad_token_id or 0)
    mask = batch["attention_mask"].bool()
    hidden, near = hidden_of(exact, batch), hidden_of(single, batch)
    out = {"tokens": batch["input_ids"].tolist(), "types": batch["token_type_ids"].tolist()}
    if "For" not in cls:
        out |= {"hidden": real(hidden, mask), "hidden_noise": distance(hidden[mask], near[mask])}
    if hasattr(getattr(exact, exact.base_model_prefix, exact), "pooler") and "Model" in cls:
        out["pooled"] = exact(**arguments(exact, batch)).pooler_output.tolist()
    if "For" in cls:
        logits, near = exact(**arguments(exact, batch)).logits, single(**arguments(single, batch)).logits
        of_tokens = logits.dim() == 3
        out["logits"] = real(logits, mask) if of_tokens else logits.tolist()
        out["logits_noise"] = distance(logits[mask], near[mask]) if of_tokens else distance(logits, near)
    return out


@torch.no_grad()
def texts_of(folder, name, cls, weights):
    tokenizer = T.AutoTokenizer.from_pretrained(folder)
    exact, single = fresh(folder, cls, torch.float64), fresh(folder, cls, torch.float32)
    out = {}
    if name in SENTENCES:
        for prompt_name in [None, *SENTENCES[name]["prompts"]]:
            prompt = SENTENCES[name]["prompts"].get(prompt_name, "")
            ids, rows = vectors(exact, tokenizer, SENTENCES[name], weights, prompt)
            near = vectors(single, tokenizer, SENTENCES[name], weights, prompt)[1]
            out[prompt_name or ""] = {"ids": ids, "vectors": rows.tolist(), "noise": distance(rows, near)}
        return {"vectors": out}
    if "cross" not in name:
        return {}
    batch = tokenizer([a for a, _ in PAIRS], [b for _, b in PAIRS], padding=True, truncation=True, max_length=tokenizer.model_max_length,
                      return_tensors="pt", return_token_type_ids=True)
    rows = batch["attention_mask"].sum(1).tolist()
    scores = exact(**arguments(exact, batch)).logits[:, 0]
    near = single(**arguments(single, batch)).logits[:, 0]
    if name != "bert_cross":
        scores, near = scores.sigmoid(), near.sigmoid()
    return {"pairs": {"ids": [ids[:n] for ids, n in zip(batch["input_ids"].tolist(), rows)],
                      "types": [ids[:n] for ids, n in zip(batch["token_type_ids"].tolist(), rows)],
                      "scores": scores.tolist(), "noise": distance(scores, near)}}


def make(name, cls, config):
    torch.manual_seed(sum(map(ord, name)))
    model = getattr(T, cls)(config).eval()
    with torch.no_grad():  # the usual 0.02 would make attention flat, and biases and norms would have no effect
        for key, weight in model.named_parameters():
            is_near_one = "norm" in key.lower() and key.endswith(".weight")
            weight.copy_(torch.randn_like(weight) * 0.3 + (1 if is_near_one else 0))
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    weights = [{"linear.weight": torch.randn(size, width) * 0.3, "linear.bias": torch.randn(size) * 0.3} for size, width in (
        zip([12, 8], [32, 12]) if name == "bert_dense" else [])]
    if name in TOKENIZERS:
        TOKENIZERS[name]().save_pretrained(folder)
    if name in SENTENCES:
        write_sentence_files(folder, name, weights)
    if name == "bert_cross":
        contents = json.loads((folder / "config.json").read_text())
        contents["sentence_transformers"] = {"activation_fn": ACTIVATIONS[None], "version": "5.0.0"}
        (folder / "config.json").write_text(json.dumps(contents, indent=2))
    out = results(folder, name, cls) | (texts_of(folder, name, cls, weights) if name in TOKENIZERS else {})
    if "For" in cls:
        exact, single = fresh(folder, cls, torch.float64), fresh(folder, cls, torch.float32)
        batch, targets = batch_of(config.pad_token_id), targets_of(name, exact)
        out["targets"] = targets.tolist()
        out["losses"] = losses(exact, batch, targets, torch.float64)
        out["losses_noise"] = max(abs(a - b) for a, b in zip(out["losses"], losses(single, batch, targets, torch.float32)))
    return out


def make_lora(folder):
    """An adapter of bert_cross as PEFT writes it, and the logits with it."""
    model = fresh(HERE / "bert_cross", "BertForSequenceClassification", torch.float32)
    torch.manual_seed(5)
    adapted = get_peft_model(model, LoraConfig(r=2, lora_alpha=3, target_modules=["query", "value"]))
    with torch.no_grad():
        for key, weight in adapted.named_parameters():
            if "lora_" in key:
                weight.copy_(torch.randn_like(weight) * 0.3)
    shutil.rmtree(folder, ignore_errors=True)
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "bert_cross"}, indent=2) + "\n")
    batch = batch_of(0)
    with torch.no_grad():
        return adapted.double()(**batch).logits.tolist()


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def main():
    expected = {"lengths": LENGTHS, "texts": TEXTS, "pair_texts": PAIRS, "models": {}}
    for name, (cls, config) in MODELS.items():
        expected["models"][name] = make(name, cls, config)
    expected["lora_logits"] = make_lora(HERE / "bert_lora")
    (HERE / "expected.json").write_text(json.dumps(rounded(expected)).replace('"models": {', '"models": {\n').replace("}, \"", "},\n\"") + "\n")


if __name__ == "__main__":
    main()
