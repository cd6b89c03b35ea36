// Tests bad input: exit code 1, one line on stderr that names the cause and the remedy, and no output written.
#include <cmath>

#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class BadInput : public ToolTest {
 protected:
  Process run(const Words& words) const { return run_tool("genesis-run", words); }
  std::string damaged(const std::string& name, const std::function<void(std::string&)>& change) const {
    std::string bytes = read_text(tiny("qwen2.genesis"));
    change(bytes);
    write_text(path(name), bytes);
    return path(name);
  }
  std::string file(const std::string& name, const std::string& text) const {
    write_text(path(name), text);
    return path(name);
  }
};

TEST_F(BadInput, FilesThatAreNotModels) {
  expect_error(run({"info", path("none.genesis")}), {"none.genesis", "No such file"});
  expect_error(run({"info", folder().string()}), {"folder"});
  expect_error(run({"info", TinyModels::get().text()}), {"text.txt", "not a .genesis file"});
  expect_error(run({"info", file("empty.genesis", "")}), {"empty.genesis", "not a .genesis file"});
}

TEST_F(BadInput, DamagedModels) {
  for (const size_t size : {70u, 1000u, 20000u}) {
    const std::string cut = damaged("cut.genesis", [&](std::string& bytes) { bytes.resize(size); });
    expect_error(run({"generate", cut, "--prompt", "a"}), {"cut.genesis", "cut short"});
  }
  const std::string longer = damaged("longer.genesis", [](std::string& bytes) { bytes += "more"; });
  expect_error(run({"info", longer}), {"longer.genesis"});
  for (const size_t at : {1u, 20u, 100u, 5000u}) {
    const std::string flipped = damaged("flipped.genesis", [&](std::string& bytes) { bytes[at] ^= 4; });
    expect_error(run({"generate", flipped, "--prompt", "a"}), {"flipped.genesis"});
  }
}

// Weights are read through a mapping, so hashes are checked only by commands that read all of them anyway.
TEST_F(BadInput, DamagedWeightsAreNotTrainedNorGivenANewHash) {
  const std::string flipped =
      damaged("flipped.genesis", [](std::string& bytes) { bytes[bytes.size() - 999] ^= 1; });
  expect_error(run({"info", flipped, "--verify"}), {"flipped.genesis", "segment 0 is damaged"});
  expect_error(run_tool("genesis-opt", {flipped, "-o", path("o.genesis")}),
               {"flipped.genesis", "segment 0 is damaged"});
  expect_error(run({"train", flipped, "--data", TinyModels::get().text()}), {"segment 0 is damaged"});
  EXPECT_FALSE(fs::exists(path("o.genesis")));
}

TEST_F(BadInput, EntryPointsThatAreNotThere) {
  for (const char* command : {"infer", "bench", "profile", "compare"})
    expect_error(run({command, tiny("mlp.genesis"), "--entry", "nope"}), {"'nope'", "forward, loss"});
  expect_error(run({"train", tiny("mlp.genesis"), "--data", TinyModels::get().text()}),
               {"mlp.genesis", "train_step", "genesis-opt"});
  expect_error(run({"generate", tiny("mlp.genesis"), "--prompt", "a"}), {"decode"});
}

TEST_F(BadInput, InputsThatDoNotFit) {
  const Words infer = {"infer", tiny("mlp.genesis"), "-o", path("y.npy"), "--input"};
  write_npy(path("wide.npy"), Tensor::of<float>({2, 5}, std::vector<float>(10)));
  write_npy(path("flat.npy"), Tensor::of<float>({4}, std::vector<float>(4)));
  write_npy(path("whole.npy"), Tensor::of<int64_t>({2, 4}, std::vector<int64_t>(8)));
  expect_error(run(infer + Words{"x=" + path("wide.npy")}), {"'x'", "f32[2,5]", "f32[batch,4]"});
  expect_error(run(infer + Words{"x=" + path("flat.npy")}), {"'x'", "f32[4]", "f32[batch,4]"});
  expect_error(run(infer + Words{"x=" + path("whole.npy")}), {"'x'", "i64[2,4]", "f32[batch,4]"});
  expect_error(run(infer + Words{"nope=random"}), {"'nope'", "it takes: x"});
  expect_error(run(infer + Words{"x=" + path("none.npy")}), {"none.npy", "No such file"});
  expect_error(run(infer + Words{"x=" + file("bad.npy", "\x93NUMPY nonsense")}), {"bad.npy"});
  expect_error(run(infer + Words{file("bad.safetensors", "nonsense")}), {"bad.safetensors"});
  expect_usage_error(run(infer + Words{"x=much"}), {"x=much", ".npy", "random"});
  expect_usage_error(run(infer + Words{"x"}), {"NAME=VALUE"});
  for (const char* value : {"much", "", "1e999", " 1", "1x"})
    expect_usage_error(run(infer + Words{std::string("x=full:") + value}), {"number"});
  for (const char* tokens : {"tokens=full:1e30", "tokens=full:0.5", "tokens=full:nan"})
    expect_error(run({"infer", tiny("qwen2.genesis"), "--input", tokens}), {"i64", "whole number"});
  SafeTensors contents;
  contents.tensors = {{"y", Tensor::scalar<float>(1)}};
  write_safetensors(path("y.safetensors"), contents);
  expect_error(run(infer + Words{"x=" + path("y.safetensors")}), {"y.safetensors", "'x'"});
  expect_error(run(infer + Words{path("y.safetensors")}),
               {"y.safetensors", "none of the inputs", "takes: x"});
  expect_error(run(infer + Words{"x=zeros", "--input", "x=random"}), {"x=random", "'x' is given twice"});
  EXPECT_FALSE(fs::exists(path("y.npy")));
}

TEST_F(BadInput, InputsThatDisagree) {
  write_npy(path("x.npy"), Tensor::of<float>({2, 4}, std::vector<float>(8)));
  write_npy(path("t.npy"), Tensor::of<int64_t>({3}, {0, 1, 2}));
  expect_error(run({"infer", tiny("mlp.genesis"), "--entry", "loss", "--input", "x=" + path("x.npy"),
                    "--input", "target=" + path("t.npy")}),
               {"batch", "i64[3]"});
}

TEST_F(BadInput, InputsThatAreInventedAreNamed) {
  const Process process = run({"infer", tiny("mlp.genesis")});
  expect_ok(process);
  EXPECT_NE(process.err.find("input 'x' was not given and is random"), std::string::npos) << process.err;
  EXPECT_EQ(run({"infer", tiny("mlp.genesis"), "--input", "x=random"}).err, "");
}

TEST_F(BadInput, SizesThatMakeNoSense) {
  write_npy(path("x.npy"), Tensor::of<float>({2, 4}, std::vector<float>(8)));
  expect_error(run({"infer", tiny("mlp.genesis"), "--input", "x=" + path("x.npy"), "--size", "batch=3"}),
               {"batch=3", "'x'", "has 2"});
  expect_usage_error(run({"infer", tiny("mlp.genesis"), "--size", "batch=3", "--size", "batch=4"}),
                     {"twice"});
  for (const Words& words : {Words{"genesis-opt", "--check", "cpu"}, Words{"genesis-run", "--device", "cpu"},
                             Words{"genesis-viz", "--color", "memory", "-o", path("v.dot")}}) {
    const Words file =
        words[0] == "genesis-run" ? Words{"info", tiny("mlp.genesis")} : Words{tiny("mlp.genesis")};
    expect_error(run_tool(words[0], file + Words(words.begin() + 1, words.end()) +
                                        Words{"--size", "batch=2", "--size", "foo=3"}),
                 {"foo=3", "they have: batch"});
  }
  for (const char* size : {"batch=-1", "batch=1.5", "batch=1e30", "batch=many", "batch=", "=3", "batch"})
    expect_usage_error(run({"infer", tiny("mlp.genesis"), "--size", size}), {size, "SYMBOL=SIZE"});
  expect_error(run({"infer", tiny("mlp.genesis"), "--size", "bath=3"}),
               {"bath=3", "did you mean 'batch'?", "it has: batch"});
  expect_error(run({"infer", tiny("mlp.genesis"), "--size", "batch=9000000000000000000"}),
               {"'x'", "batch=9000000000000000000", "the limit for one tensor"});
}

TEST_F(BadInput, WaysToRunThatAreNotThere) {
  const Words infer = {"infer", tiny("mlp.genesis")};
  expect_usage_error(run(infer + Words{"--device", "tpu"}), {"no device 'tpu'", "cpu, cuda or cuda:N"});
  expect_error(run(infer + Words{"--device", "cuda:99"}), {"no device 'cuda:99'", "cpu"});
  expect_usage_error(run(infer + Words{"--threads", "-2"}), {"--threads -2"});
  expect_usage_error(run(infer + Words{"--threads", "1000000"}), {"--threads 1000000"});
  expect_usage_error(run({"bench", tiny("mlp.genesis"), "--runs", "-1"}), {"--runs -1"});
  expect_usage_error(run({"profile", tiny("mlp.genesis"), "--runs", "0"}), {"--runs 0"});
  expect_usage_error(run(infer + Words{"--disable", "nopass"}), {"'nopass'", "cse"});
  expect_usage_error(run({"compare", tiny("mlp.genesis"), "--a", "speed=on"}), {"'speed'", "threads"});
  expect_usage_error(run({"compare", tiny("mlp.genesis"), "--a", "threads=few"}), {"threads=few", "number"});
  expect_usage_error(run({"compare", tiny("mlp.genesis"), "--a", "thread=2"}), {"did you mean 'threads'?"});
  expect_usage_error(run({"compare", tiny("mlp.genesis"), "--a", "device=tpu"}), {"no device 'tpu'"});
  ProcessOptions options;
  options.environment = {"GENESIS_DISABLE=nopass"};
  expect_error(run_tool("genesis-run", infer, options), {"'nopass'"});
}

TEST_F(BadInput, ModelsAndSettingsThatAreNotThere) {
  const auto build = [&](const Words& words) {
    return run_tool("genesis-build", words + Words{"-o", path("m.genesis")});
  };
  expect_error(build({"lenet"}), {"'lenet'", "mlp, gpt2, qwen2, qwen3, llama"});
  expect_usage_error(build({"mlp", "--set", "depth=3"}), {"'depth'", "num_hidden_layers"});
  expect_usage_error(build({"mlp", "--set", "num_classes=few"}), {"num_classes=few", "integer"});
  expect_usage_error(build({"mlp", "--set", "num_classes=-1"}), {"num_classes", "positive"});
  expect_usage_error(build({"mlp", "--set", "num_classes"}), {"key=value"});
  expect_usage_error(build({"mlp", "--set", "num_classes=2", "--set", "num_classes=3"}), {"twice"});
  expect_usage_error(build({"mlp", "--set", "activation=step"}), {"'step'", "relu"});
  expect_usage_error(build({"mlp", "--set", "hidden_features=99999999999"}),
                     {"hidden_features=99999999999", "the limit for one tensor"});
  expect_usage_error(build({"qwen2", "--set", "num_attention_heads=3"}),
                     {"num_attention_heads 3", "num_key_value_heads 2"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

// The error comes before the work, not after it.
TEST_F(BadInput, PlacesThatCannotBeWritten) {
  const std::string no = path("none/x");
  const Words train = train_words("qwen2", 3);
  expect_error(run_tool("genesis-build", {"mlp", "-o", no + ".genesis"}), {"none"});
  expect_error(run_tool("genesis-build", {"mlp", "-o", folder().string()}), {"it is a folder"});
  expect_error(run_tool("genesis-build", {"mlp", "--set", "in_features=100000000", "-o", folder().string()}),
               {"it is a folder"});  // before any weight is drawn
  expect_error(run_tool("genesis-build", {path("none/model"), "-o", path("m.genesis")}),
               {"there is no folder"});
  expect_error(run_tool("genesis-build", {TinyModels::get().text(), "-o", path("m.genesis")}),
               {"text.txt", "--list", ".gguf"});
  expect_error(run_tool("genesis-opt", {tiny("mlp.genesis"), "-o", no + ".genesis"}), {"none", "no folder"});
  expect_error(run({"infer", tiny("mlp.genesis"), "-o", no + ".npy"}), {"none", "no folder"});
  expect_usage_error(run({"infer", tiny("mlp.genesis"), "-o", path("y.txt")}),
                     {"y.txt", ".npy or .safetensors"});
  expect_error(run({"profile", tiny("mlp.genesis"), "--trace", no + ".json"}), {"none", "no folder"});
  expect_error(run(train + Words{"-o", no + ".genesis"}), {"none", "no folder"});
  expect_error(run(train + Words{"--metrics", no + ".jsonl"}), {"none", "no folder"});
  expect_error(run(train + Words{"--checkpoint", TinyModels::get().text()}), {"text.txt", "folder"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

TEST_F(BadInput, FilesThatWouldBeLost) {
  const std::string text = read_text(TinyModels::get().text()), data = file("t.txt", text),
                    other = file("notes.txt", "notes\n");
  const Words train{
      "train", tiny("qwen2.train.genesis"), "--quiet", "--steps", "1", "--batch", "2", "--seq", "16",
      "--data"};
  fs::create_directory(path("texts"));
  fs::create_symlink(data, path("texts/link.txt"));
  for (const std::string& given : {data, path("texts")})
    for (const char* option : {"-o", "--metrics"})
      expect_error(run(train + Words{given, option, data}),
                   {option, "t.txt", "of the data", "name another file"});
  expect_error(run(train + Words{TinyModels::get().text(), "--eval-data", data, "-o", data}),
               {"-o", "of the data"});
  expect_error(run(train + Words{data, "--metrics", other}),
               {"notes.txt", "something else than metrics", "another file"});
  expect_error(run(train + Words{data, "-o", other}),
               {"-o", "notes.txt", "no .genesis file", "another file"});
  for (const char* tool : {"genesis-opt", "genesis-build"})
    expect_error(
        run_tool(tool, {tool == std::string("genesis-opt") ? tiny("mlp.genesis") : "mlp", "-o", other}),
        {"notes.txt", "no .genesis file", "would be lost"});
  EXPECT_EQ(read_text(data), text);
  EXPECT_EQ(read_text(other), "notes\n");
  write_text(other, "");  // an empty file loses nothing
  expect_ok(run_tool("genesis-build", {"mlp", "-o", other}));
}

TEST_F(BadInput, AFullDisk) {
  ProcessOptions full;
  full.largest_file_bytes = 600;
  expect_error(run_tool("genesis-build", {"mlp", "-o", path("m.genesis")}, full), {"m.genesis", "too low"});
  expect_error(run_tool("genesis-opt", {tiny("mlp.genesis"), "-o", path("o.genesis")}, full),
               {"o.genesis", "too low"});
  expect_error(run_tool("genesis-viz", {tiny("mlp.genesis"), "-o", path("m.dot")}, full),
               {"m.dot", "too low"});
  expect_error(run_tool("genesis-run",
                        {"infer", tiny("mlp.genesis"), "--size", "batch=90", "-o", path("y.npy")}, full),
               {"y.npy", "too low"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
  const Process trained =
      run_tool("genesis-run", train_words("qwen2", 30, {"--metrics", path("m.jsonl")}), full);
  expect_ok(trained);  // the work is worth more than its curve
  for (const char* part : {"m.jsonl stopped: ", "at step ", "training goes on"})
    EXPECT_NE(trained.err.find(part), std::string::npos) << trained.err;
  const Process standard = run_process({"sh", "-c", tool_path("genesis-build") + " --list > /dev/full"});
  expect_error(standard, {"output could not be written"});
}

TEST_F(BadInput, DataThatCannotBeTrainedOn) {
  const auto train = [&](const std::string& model, const Words& data) {
    return run(Words{"train", tiny(model + ".train.genesis"), "--quiet", "--steps", "30", "--checkpoint",
                     path("run")} +
               data);
  };
  expect_error(train("qwen2", {"--data", path("none.txt")}), {"none.txt", "No such file"});
  expect_error(train("qwen2", {"--data", file("short.txt", "short"), "--batch", "2", "--seq", "8"}),
               {"5 bytes", "needs 17", "smaller batches"});
  expect_usage_error(train("qwen2", {"--data", TinyModels::get().text(), "--batch", "0"}),
                     {"--batch 0", "1 or more"});
  expect_error(train("mlp", {"--data", TinyModels::get().text(), "--seq", "8"}),
               {"'targets'", "it takes: x, target"});
  const std::string good = R"({"x":[1,2,3,4],"target":1})"
                           "\n";
  const auto rows = [&](const std::string& text) {
    return train("mlp", {"--data", file("rows.jsonl", text), "--batch", "1"});
  };
  expect_error(rows(good + "{\"x\":[1,2\n"), {"rows.jsonl:2", "JSON"});
  expect_error(rows(good + R"({"x":[1,2],"target":1})"
                           "\n"),
               {"rows.jsonl:2", "'x'", "shape"});
  expect_error(rows(good + R"({"x":[1,[2],3,4],"target":1})"
                           "\n"),
               {"rows.jsonl:2", "'x'", "ragged"});
  expect_error(rows(good + R"({"x":[1,2,3,4]})"
                           "\n"),
               {"rows.jsonl:2", "'target'", "missing"});
  expect_error(rows(good + R"({"x":[1,2,3,"4"],"target":1})"
                           "\n"),
               {"rows.jsonl:2", "'x'", "number"});
  expect_error(rows(R"({"x":[1,2,3,4],"target":1.5})"
                    "\n"),
               {"'target'", "f32[1]", "i64[batch]"});
  expect_error(rows(R"({"x":[1,2,3,4],"y":1})"
                    "\n"),
               {"'y'", "it takes: x, target"});
  expect_error(train("mlp", {"--data", TinyModels::get().rows(), "--batch", "100"}), {"60 rows", "100"});
  write_npy(path("x.npy"), Tensor::of<float>({6, 4}, std::vector<float>(24)));
  write_npy(path("t.npy"), Tensor::of<int64_t>({5}, {0, 1, 2, 0, 1}));
  expect_error(train("mlp", {"--data", "x=" + path("x.npy"), "--data", "target=" + path("t.npy")}),
               {"6 rows", "5"});
  expect_error(train("mlp", {"--data", path("x.npy")}), {"x.npy", "NAME="});
  expect_ok(
      run_tool("genesis-opt", {tiny("mlp.genesis"), "--train", "sgd,accumulate=4", "-o", path("a.genesis")}));
  expect_error(
      run({"train", path("a.genesis"), "--quiet", "--data", TinyModels::get().rows(), "--batch", "6"}),
      {"f32[6,4]", "f32[4*batch,4]", "no whole 'batch'"});
  EXPECT_TRUE(!fs::exists(path("run")) || fs::is_empty(path("run")));
}

TEST_F(BadInput, ModelsThatGiveNoNumbersHaveNoLoss) {
  const auto model = load_model(tiny("qwen2.genesis"));
  model->set_initial(model->find_state("model.norm.weight"),
                     Tensor::of<float>({16}, std::vector<float>(16, NAN)));
  save_model(*model, path("nan.genesis"));
  const Words eval = {"eval", path("nan.genesis"), "--data", TinyModels::get().text(), "--json"};
  expect_error(run(eval), {"nan.genesis", "the loss of", "is NaN", "--find-nonfinite"});
  expect_error(run(eval + Words{"--find-nonfinite"}), {"node 'model."});
  expect_error(run({"eval", tiny("qwen2.genesis"), "--data", TinyModels::get().text(), "--compare",
                    path("nan.genesis")}),
               {"nan.genesis", "is NaN"});
}

// A cache of another size needs no config, so that one that cannot be does no harm.
TEST_F(BadInput, ConfigurationsThatCannotBeAreNotRead) {
  const auto model = load_model(tiny("qwen2.genesis"));
  for (const char* config : {"[]", "{\"num_attention_heads\": 0}"}) {
    model->metadata["config"] = config;
    save_model(*model, path("odd.genesis"));
    const Words generate = {"generate", path("odd.genesis"), "--prompt", "a"};
    const Words greedy = {"--max-tokens", "5", "--temperature", "0"};
    const std::string text = expect_ok(run(generate + greedy));
    EXPECT_EQ(expect_ok(run(generate + greedy + Words{"--context", "64"})), text);
    expect_ok(run(generate + greedy + Words{"--prompt", "b", "--batch", "2"}));
    expect_error(run({"chat", path("odd.genesis"), "--context", "64"}), {"odd.genesis"});
  }
}

// Models and compressed files are not text.
TEST_F(BadInput, DataThatIsNoText) {
  const std::string model = tiny("qwen2.genesis");
  const auto refused = [&](const std::string& data, const Words& parts) {
    expect_error(run({"train", tiny("qwen2.train.genesis"), "--quiet", "--steps", "1", "--data", data}),
                 parts);
    expect_error(run({"eval", model, "--data", data}), parts);
  };
  refused(model, {"qwen2.genesis' is no text", "byte 0", "a model of Genesis"});
  refused(file("t.txt.gz", "\x1f\x8b\x08 packed"), {"t.txt.gz' is no text", "gzip", "unpack it first"});
  refused(file("t.txt", std::string("one\0two", 7)), {"t.txt' is no text", "byte 3 is NUL", "UTF-8"});
  refused(file("t.json", "[{\"messages\": []}]"), {"t.json", "\"messages\"", ".jsonl"});
}

TEST_F(BadInput, IndicesOutOfRangeNameTheNode) {
  expect_error(run({"infer", tiny("qwen2.genesis"), "--input", "tokens=full:256"}),
               {"'model.embed_tokens.embedding'", "index 256", "less than 256"});
  expect_error(run({"infer", tiny("gpt2.genesis"), "--input", "tokens=full:-1"}), {"wte", "index -1"});
  const std::string row = R"({"x":[1,2,3,4],"target":3})"
                          "\n";
  expect_error(
      run({"train", tiny("mlp.train.genesis"), "--data", file("rows.jsonl", row), "--batch", "1", "--quiet"}),
      {"cross_entropy", "index 3", "less than 3"});
}

TEST_F(BadInput, TextThatCannotBeWritten) {
  const Words generate = {"generate", tiny("qwen2.genesis"), "--json", "--prompt"};
  expect_error(run(generate + Words{""}), {"prompt is empty"});
  expect_error(run(generate + Words{std::string(49, 'a')}), {"49 tokens", "48 tokens or fewer"});
  // The error does not repeat the whole prompt, and stdout does not either.
  const Process longer = run({"generate", tiny("qwen2.genesis"), "--prompt", std::string(20000, 'a')});
  expect_error(longer, {"20000 tokens", "48", "(20000 bytes)"});
  EXPECT_LT(longer.err.size(), 400u) << longer.err;
  expect_usage_error(run(generate + Words{"a", "--temperature", "-1"}), {"--temperature -1"});
  expect_usage_error(run(generate + Words{"a", "--temperature", "nan"}), {"--temperature nan"});
  expect_usage_error(run(generate + Words{"a", "--top-p", "0"}), {"--top-p 0", "more than 0", "at most 1"});
  expect_usage_error(run(generate + Words{"a", "--max-tokens", "-1"}), {"--max-tokens -1"});
  // A full cache ends the text and is no error.
  const auto json = expect_json(run(generate + Words{"a", "--max-tokens", "100"}));
  EXPECT_EQ(json["cache_full"], true);
  EXPECT_EQ(json["tokens"].size(), 48u);
  expect_ok(run_tool("genesis-build", {"qwen2", "--set", "vocab_size=300", "--set", "num_hidden_layers=1",
                                       "-o", path("v.genesis")}));
  expect_error(run({"generate", path("v.genesis"), "--prompt", "a"}),
               {"v.genesis", "vocabulary of 300", "256"});
}

}  // namespace
}  // namespace genesis::testing
