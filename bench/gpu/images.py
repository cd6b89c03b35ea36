#!/usr/bin/env python3
"""Times image networks of the zoo on a GPU in bf16 beside torchvision's, compiled with channels last.

    python3 bench/gpu/images.py BUILD_FOLDER [--nets resnet50,...] [--batches 1,32,256] [--train resnet50=256,...] [--no-torch]
                                [--profile]

Inference has batches of images of 224 x 224, and for PyTorch CUDA graphs (reduce-overhead); training is a step of SGD with momentum
whose weights stay f32. Compiling takes PyTorch most of the time, so all of its cases are compiled at once, each in a process of its
own; then they are timed one after the other. Times are of the device's clock, the best of some runs. Prints a table.
"""
import argparse
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import threading

PATIENCE = 600  # seconds until the cases that are compiled are timed
NETS = "resnet50,vit_b_16,mobilenet_v3_large,convnext_tiny,efficientnet_b0"


def genesis_file(tools, folder, net, trains):
    plain, made = folder / f"{net}.genesis", folder / f"{net}-{'train' if trains else 'infer'}.genesis"
    if not plain.exists():
        subprocess.run([tools / "genesis-build", net, "-o", plain], check=True, capture_output=True)
    how = ["--train", "sgd,lr=0.01,momentum=0.9"] if trains else ["--inference"]
    subprocess.run([tools / "genesis-opt", plain, *how, "--cast", "bf16", "-o", made], check=True, capture_output=True)
    return made


def genesis_times(tools, folder, case, profile):
    net, batch, trains = case
    file = genesis_file(tools, folder, net, trains)
    where = ["--entry", "train_step" if trains else "forward", "--size", f"batch={batch}", "--device", "cuda"]
    ran = subprocess.run([tools / "genesis-run", "bench", file, *where, "--seconds", "0.5", "--json"], capture_output=True,
                         text=True)
    if ran.returncode:
        return {"error": ran.stderr.strip().splitlines()[-1][:200]}
    result = json.loads(ran.stdout.strip().splitlines()[-1])
    if profile:
        for by_op in ["--by-op"], []:
            print(net, batch, "train" if trains else "infer", *by_op, flush=True)
            subprocess.run([tools / "genesis-run", "profile", file, *where, "--top", str(profile), *by_op], check=False)
    return {"ms": result["device_ms"], "gb": (result["arena_bytes"] + result["state_bytes"]) / 1e9}


def torch_case(case, ready, turn, results):
    """Compiles the case, waits until all are compiled and for its turn, and times it."""
    net, batch, trains = case
    try:
        step, torch = torch_step(net, batch, trains)
        for _ in range(4):
            step()
        torch.cuda.synchronize()
        failed = None
    except Exception as error:  # a case that does not run must not stop the others
        failed = str(error).splitlines()[0][:200]
    try:
        ready.wait(PATIENCE)
    except threading.BrokenBarrierError:  # another case takes too long: it is left out
        pass
    if failed:
        results[case] = {"error": failed}
        return
    with turn:
        results[case] = {"ms": best_milliseconds(torch, step), "gb": torch.cuda.max_memory_allocated() / 1e9}


def torch_step(net, batch, trains):
    import torch
    import torchvision
    model = torchvision.models.get_model(net, weights=None).cuda().to(memory_format=torch.channels_last)
    x = torch.rand(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    if not trains:
        model, x = model.eval().bfloat16(), x.bfloat16()
        compiled = torch.compile(model, mode="reduce-overhead")

        def infer():
            with torch.no_grad():
                compiled(x)

        return infer, torch
    target = torch.zeros(batch, dtype=torch.long, device="cuda")
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.01, momentum=0.9, fused=True)
    compiled = torch.compile(model)

    def train():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(x), target)
        loss.backward()
        optimizer.step()

    return train, torch


def best_milliseconds(torch, step, runs=8):
    best, repeats = float("inf"), 3
    for run in range(runs + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            step()
        end.record()
        torch.cuda.synchronize()
        ms = start.elapsed_time(end) / repeats
        if run:
            best = min(best, ms)
        else:  # the first says how many steps are long enough to be timed
            repeats = max(3, min(100, int(20 / ms)))
    return best


def torch_times(cases):
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        ready, turn, results = manager.Barrier(len(cases)), manager.Lock(), manager.dict()
        workers = [context.Process(target=torch_case, args=(case, ready, turn, results)) for case in cases]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return dict(results)


def has_torch():
    try:
        import torch
        import torchvision  # noqa: F401
        return torch.cuda.is_available()
    except ImportError:
        return False


def print_row(case, ours, theirs):
    net, batch, trains = case
    what = f"{net}, {'train' if trains else 'infer'}, {batch}"
    texts = [r.get("error") or f"{r['ms']:.3f} ms, {r['gb']:.2f} GB" for r in (ours, theirs)]
    ratio = f"{theirs['ms'] / ours['ms']:.2f}x" if "ms" in ours and "ms" in theirs else "-"
    print(f"| {what} | {texts[0]} | {texts[1]} | {ratio} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--nets", default=NETS)
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--train", default="resnet50=256,vit_b_16=128,convnext_tiny=128")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--profile", type=int, default=0, metavar="ROWS")
    options = parser.parse_args()
    cases = [(net, int(batch), False) for net in options.nets.split(",") if net for batch in options.batches.split(",")]
    for text in filter(None, options.train.split(",")):
        net, batch = text.split("=")
        cases.append((net, int(batch), True))
    theirs = {}
    if options.no_torch or not has_torch():
        print("PyTorch's side is skipped")
    else:
        theirs = torch_times(cases)
    print("| network, mode, batch | genesis | torch.compile | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            ours = genesis_times(options.build / "tools", pathlib.Path(folder), case, options.profile)
            print_row(case, ours, theirs.get(case, {"error": "-"}))


if __name__ == "__main__":
    sys.exit(main())
