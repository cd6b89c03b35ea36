#!/usr/bin/env python3
"""Times image networks of the zoo on a GPU in bf16 beside torchvision's, compiled with channels last.

    python3 bench/gpu/images.py BUILD_FOLDER [--nets resnet50,...] [--batches 1,32,256] [--train resnet50=256,...] [--no-torch]
                                [--profile] [--patience SECONDS] [--rows FILE]

Inference has batches of images of 224 x 224, and for PyTorch CUDA graphs (reduce-overhead); training is a step of SGD with momentum
whose weights stay f32. Compiling takes PyTorch most of the time, so all of its cases are compiled at once, each in a process of its
own with as many threads as there are cores for it; then they are timed one after the other. Cases that are not compiled after
`--patience` seconds are left out. Times are of the device's clock, the best of some runs. Prints a table; rows are written to a file
as they come, so that a run that is cut short loses only what it did not measure.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

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
    """Compiles the case, says so, waits for its turn, and times it."""
    net, batch, trains = case
    try:
        step, torch = torch_step(net, batch, trains)
        for _ in range(4):
            step()
        torch.cuda.synchronize()
    except Exception as error:  # a case that does not run must not stop the others
        results.put((case, {"error": str(error).splitlines()[0][:200]}))
        ready.set()
        return
    ready.set()
    turn.wait()
    results.put((case, {"ms": best_milliseconds(torch, step), "gb": torch.cuda.max_memory_allocated() / 1e9}))


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


def torch_times(cases, patience, say):
    """Returns the result of each case; calls say(case, result) as soon as there is one.

    A training step has several times the kernels of an inference: it gets four shares of the processors to compile them, and at
    least three threads.
    """
    context = multiprocessing.get_context("spawn")
    all_results, workers = {}, []
    share = (os.cpu_count() or 1) / sum(4 if trains else 1 for _, _, trains in cases)
    for case in cases:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(max(1, int(share * (4 if case[2] else 1)), 3 if case[2] else 1))
        ready, turn, results = context.Event(), context.Event(), context.SimpleQueue()
        worker = context.Process(target=torch_case, args=(case, ready, turn, results))
        worker.start()
        workers.append((case, worker, ready, turn, results))
    until = time.monotonic() + patience
    for case, worker, ready, _, _ in workers:
        while worker.is_alive() and not ready.wait(min(1.0, max(0.0, until - time.monotonic()))):
            if time.monotonic() > until:
                worker.kill()
    for case, worker, ready, turn, results in workers:
        turn.set()
        worker.join()
        done = ready.is_set() and not results.empty()
        all_results[case] = results.get()[1] if done else {"error": f"not compiled after {patience} s"}
        say(case, all_results[case])
    return all_results


def has_torch():
    try:
        import torch
        import torchvision  # noqa: F401
        return torch.cuda.is_available()
    except ImportError:
        return False


def name_of(case):
    net, batch, trains = case
    return f"{net}, {'train' if trains else 'infer'}, {batch}"


def print_row(case, ours, theirs, note):
    what = name_of(case)
    texts = [r.get("error") or f"{r['ms']:.3f} ms, {r['gb']:.2f} GB" for r in (ours, theirs)]
    ratio = f"{theirs['ms'] / ours['ms']:.2f}x" if "ms" in ours and "ms" in theirs else "-"
    note(f"| {what} | {texts[0]} | {texts[1]} | {ratio} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--nets", default=NETS)
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--train", default="resnet50=256,vit_b_16=128,convnext_tiny=128")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--profile", type=int, default=0, metavar="ROWS")
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS")
    parser.add_argument("--rows", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()

    def note(text):
        print(text, flush=True)
        if options.rows:
            with options.rows.open("a") as file:
                file.write(text + "\n")

    cases = [(net, int(batch), False) for net in options.nets.split(",") if net for batch in options.batches.split(",")]
    for text in filter(None, options.train.split(",")):
        net, batch = text.split("=")
        cases.append((net, int(batch), True))
    theirs = {}
    if options.no_torch or not has_torch():
        print("PyTorch's side is skipped")
    else:
        theirs = torch_times(cases, options.patience, lambda case, result: note(f"torch {name_of(case)}: {result}"))
    note("| network, mode, batch | genesis | torch.compile | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            ours = genesis_times(options.build / "tools", pathlib.Path(folder), case, options.profile)
            print_row(case, ours, theirs.get(case, {"error": "-"}), note)


if __name__ == "__main__":
    sys.exit(main())
