// Tests genesis-build of a folder that transformers saved.
#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class Import : public ToolTest {
 protected:
  static std::string folder(const std::string& name) {
    return std::string(GENESIS_SOURCE_ROOT) + "/tests/models/hugging_face/" + name;
  }
  // The error has several lines.
  static void expect_refused(const Process& process, const Words& parts) {
    EXPECT_EQ(process.code, 1);
    for (const std::string& part : parts) EXPECT_NE(process.err.find(part), std::string::npos) << process.err;
  }
};

TEST_F(Import, MakesAFileThatTheOtherToolsTake) {
  const auto made =
      expect_json(run_tool("genesis-build", {folder("qwen2_tied"), "-o", path("m.genesis"), "--json"}));
  EXPECT_EQ(made["model"], "qwen2");
  EXPECT_EQ(made["parameters"], 61 * 16 + 2 * (16 * 16 * 2 + 16 * 8 * 2 + 32 + 3 * 16 * 24 + 32) + 16);
  const auto info = expect_json(run_tool("genesis-run", {"info", path("m.genesis"), "--json"}));
  EXPECT_EQ(info["metadata"]["architecture"], "qwen2");
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--train", "adamw", "-o", path("train.genesis")}));
}

TEST_F(Import, TakesSettingsButNoSeed) {
  expect_ok(run_tool("genesis-build", {folder("llama_bf16"), "--set", "dtype=f32", "-o", path("m.genesis")}));
  expect_usage_error(
      run_tool("genesis-build", {folder("llama_bf16"), "--seed", "3", "-o", path("n.genesis")}),
      {"--seed", "folder"});
}

TEST_F(Import, SaysWhenTheTokenizerIsOfAnotherModel) {
  fs::copy(folder("qwen2_tied"), path("hub"));
  fs::copy(folder("../tokenizer/qwen.json"), path("hub/tokenizer.json"));
  const Process of_another = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")});
  expect_ok(of_another);
  EXPECT_NE(of_another.err.find("tokens, more than the model has: 61"), std::string::npos) << of_another.err;
  write_text(path("hub/talks.jsonl"),
             "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
             "\"content\": \"b\"}]}\n");
  expect_error(
      run_tool("genesis-run", {"train", path("m.genesis"), "--data", path("hub/talks.jsonl"), "--lora", "2"}),
      {"tokens, more than the model has: 61"});
  write_text(path("hub/tokenizer.json"), "{\"model\": {\"type\": \"WordCloud\", \"vocab\": []}}");
  const Process of_another_kind = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")});
  expect_ok(of_another_kind);
  EXPECT_NE(of_another_kind.err.find("WordCloud"), std::string::npos) << of_another_kind.err;
}

// The folder is as GPT-2 was published, or as transformers' tokenizers in Python are saved.
TEST_F(Import, MakesATokenizerOfAVocabularyAndItsMerges) {
  for (const auto& [model, name, kind, tells_added] :
       {std::tuple("gpt2", "gpt2.json", "", true),
        std::tuple("qwen2_tied", "qwen.json", "Qwen2Tokenizer", true),
        std::tuple("qwen2_tied", "qwen.json", "Qwen2Tokenizer", false)}) {
    fs::copy(folder(model), path("hub"));
    const auto tokenizer = parse_json_text(read_text(folder(std::string("../tokenizer/") + name)));
    nlohmann::json vocabulary = tokenizer["model"]["vocab"], names;
    std::string merges = "#version: 0.2\n";
    for (const auto& merge : tokenizer["model"]["merges"])
      merges += (merge.is_string() ? merge.get<std::string>()
                                   : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
                "\n";
    write_text(path("hub/merges.txt"), merges);
    nlohmann::json config = nlohmann::json::object();
    if (*kind) config["tokenizer_class"] = kind;
    for (const auto& added : tokenizer["added_tokens"]) {
      if (tells_added) config["added_tokens_decoder"][added["id"].dump()] = added;
      vocabulary[added["content"].get<std::string>()] = added["id"];
      names["additional_special_tokens"].push_back(added["content"]);
    }
    write_text(path("hub/vocab.json"), vocabulary.dump());
    if (!tells_added) write_text(path("hub/special_tokens_map.json"), names.dump());
    write_text(path("hub/tokenizer_config.json"), config.dump());
    expect_ok(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}));
    const auto ids = [&](const std::string& from) {
      return expect_json(run_tool(
          "genesis-run", {"tokenize", from, "--text",
                          "don't  STOP 12345 e\xcc\x81\n\n<|im_start|> x<|endoftext|>", "--json"}))["ids"];
    };
    EXPECT_EQ(ids(path("m.genesis")), ids(folder(std::string("../tokenizer/") + name))) << model;
    EXPECT_EQ(ids(path("hub")), ids(path("m.genesis"))) << "without a model, from the same files";
    write_text(path("hub/merges.txt"), "abc\n");
    expect_error(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}),
                 {"merges.txt", "two tokens"});
    fs::remove(path("hub/merges.txt"));
    const Process without = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")});
    expect_ok(without);
    EXPECT_NE(without.err.find("brings no tokenizer"), std::string::npos) << without.err;
    fs::remove_all(path("hub"));
  }
}

// Compares with the reading of transformers 5, including its ids.
TEST_F(Import, MakesATokenizerOfAVocabularyWithTheSettingsBesideIt) {
  fs::copy(folder("gpt2"), path("hub"));
  const auto tokenizer = parse_json_text(read_text(folder("../tokenizer/gpt2.json")));
  std::string merges;
  for (const auto& merge : tokenizer["model"]["merges"])
    merges += (merge.is_string() ? merge.get<std::string>()
                                 : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
              "\n";
  write_text(path("hub/merges.txt"), merges);
  nlohmann::json vocabulary = tokenizer["model"]["vocab"];
  for (const auto& added : tokenizer["added_tokens"])
    vocabulary[added["content"].get<std::string>()] = added["id"];
  write_text(path("hub/vocab.json"), vocabulary.dump());
  const auto ids_with = [&](nlohmann::json config, const std::string& text) {
    config["tokenizer_class"] = "GPT2Tokenizer";
    write_text(path("hub/tokenizer_config.json"), config.dump());
    expect_ok(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}));
    return expect_json(
        run_tool("genesis-run", {"tokenize", path("m.genesis"), "--text", text, "--json"}))["ids"];
  };
  const auto plain = ids_with({{"add_bos_token", false}}, "the"), spaced = ids_with({}, " the");
  const nlohmann::json end = vocabulary["<|endoftext|>"];
  const auto around = [&](nlohmann::json ids, bool first, bool last) {
    if (first) ids.insert(ids.begin(), end);
    if (last) ids.push_back(end);
    return ids;
  };
  EXPECT_NE(plain, spaced);
  EXPECT_EQ(ids_with({{"add_prefix_space", true}}, "the"), spaced);
  EXPECT_EQ(ids_with({{"add_bos_token", true}}, "the"), around(plain, true, false));
  EXPECT_EQ(ids_with({{"add_bos_token", true}, {"bos_token", nullptr}}, "the"), plain);
  EXPECT_EQ(ids_with({{"add_eos_token", true}, {"eos_token", {{"content", "<|endoftext|>"}}}}, "the"),
            around(plain, false, true));
  EXPECT_EQ(ids_with({{"add_bos_token", true}, {"add_eos_token", true}, {"add_prefix_space", true}}, "the"),
            around(spaced, true, true));
}

TEST_F(Import, SaysWhatIsLostWithSettingsThatCannotBeRead) {
  fs::copy(folder("qwen2_tied"), path("hub"));
  const auto build = [&](const std::string& file, const std::string& text) {
    write_text(path("hub/" + file), text);
    const Process made = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")});
    expect_ok(made);
    fs::remove(path("hub/" + file));
    return made.err;
  };
  const auto expect_left_out = [&](const std::string& file, const std::string& text, const std::string& what,
                                   const std::string& lost) {
    const std::string said = build(file, text);
    for (const std::string& part : {path("hub/" + file), what, "left out, and with it " + lost})
      EXPECT_NE(said.find(part), std::string::npos) << said;
    const std::string info = expect_ok(run_tool("genesis-run", {"info", path("m.genesis"), "--json"}));
    EXPECT_EQ(info.find("\"" + file), std::string::npos) << info;
  };
  const std::string sampling = "how the makers sample",
                    names = "the names of special tokens and the chat template";
  expect_left_out("generation_config.json", "{\"eos_token_id\": 3,\n \"top_k\"", "line 2", sampling);
  expect_left_out("generation_config.json", "[]", "not a JSON object", sampling);
  expect_left_out("generation_config.json", "{\"eos_token_id\": \"</s>\"}", "not a token's number", sampling);
  expect_left_out("generation_config.json", "{\"do_sample\": true, \"top_p\": \"high\"}",
                  "'top_p' is not a number", sampling);
  expect_left_out("generation_config.json", "{\"do_sample\": true, \"top_p\": -1}", "top_p is -1", sampling);
  for (const auto& [text, kept] :
       {std::pair(R"({"eos_token_id": [3, 4], "do_sample": true, "temperature": "hot", "top_p": 0.5})",
                  R"({"eos_token_id": [3, 4], "do_sample": true, "top_p": 0.5})"),
        std::pair(R"({"eos_token_id": [3, "</s>"]})", R"({"eos_token_id": [3]})")}) {
    const std::string said = build("generation_config.json", text);
    EXPECT_NE(said.find("this setting is left out, and the others of the file are kept"), std::string::npos)
        << said;
    expect_ok(run_tool("genesis-run", {"export", path("m.genesis"), "-o", path("out")}));
    EXPECT_EQ(parse_json_text(read_text(path("out/generation_config.json"))), parse_json_text(kept));
    fs::remove_all(path("out"));
  }
  expect_left_out("tokenizer_config.json", "{\"eos_token\": \"</s>\"", "line 1", names);
  EXPECT_NE(build("chat_template.jinja", "{% for %}").find("will need another chat template"),
            std::string::npos);
  EXPECT_EQ(
      build("generation_config.json", "{\"eos_token_id\": [3, 4], \"top_k\": 1e300, \"do_sample\": true}"),
      "");
  EXPECT_EQ(build("tokenizer_config.json", "{\"eos_token\": null, \"chat_template\": null}"), "");
}

// Settings of the makers that are not applied, and end tokens that the model never writes, are reported once. Values
// that change nothing are not reported, even those that transformers writes.
TEST_F(Import, TellsOfGenerationSettingsThatAreNotApplied) {
  fs::copy(folder("qwen2_tied"), path("hub"));
  const auto build = [&](const std::string& text) {
    write_text(path("hub/generation_config.json"), text);
    const Process made = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")});
    expect_ok(made);
    return made.err;
  };
  const std::string said = build(
      R"({"eos_token_id": [3, 61], "no_repeat_ngram_size": 2, "suppress_tokens": [1], "bad_words_ids": [[5]], "num_beams": 4,)"
      R"( "eta_cutoff": 0.5, "something_new": true, "min_new_tokens": 3, "repetition_penalty": 1.1})");
  EXPECT_NE(said.find("generation_config.json: these settings are not applied: num_beams = 4, "
                      "something_new = true\n"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("eos_token_id 61: the model has 61 tokens and never writes that one"),
            std::string::npos)
      << said;
  EXPECT_NE(build(R"({"do_sample": true, "eta_cutoff": 0.5})").find("eta_cutoff = 0.5"), std::string::npos);
  EXPECT_EQ(
      build(
          R"({"do_sample": true, "no_repeat_ngram_size": 0, "suppress_tokens": null, "bad_words_ids": [], "num_beams": 1,)"
          R"( "typical_p": 0.5, "guidance_scale": null, "max_length": 20, "use_cache": true, "pad_token_id": 0,)"
          R"( "bos_token_id": 60, "transformers_version": "5.24.0", "stop_strings": ["\n\n"], "min_length": 0})"),
      "");
  write_text(path("hub/config.json"), [&] {
    auto config = parse_json_text(read_text(path("hub/config.json")));
    config["eos_token_id"] = 700;
    return config.dump();
  }());
  EXPECT_NE(build("{}").find("config.json: eos_token_id 700"), std::string::npos);
}

TEST_F(Import, LeavesOutWhatTheModelHasNoPlaceFor) {
  fs::copy(folder("qwen2_sharded"), path("hub"), fs::copy_options::recursive);
  const std::string index = path("hub/model.safetensors.index.json");
  auto contents = parse_json_text(read_text(index));
  contents["weight_map"]["mtp.fc.weight"] = "model-00001-of-00003.safetensors";
  write_text(index, contents.dump());
  const Process stale = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis"), "--ignore-extra",
                                                   "mtp.*", "--ignore-extra", "x"});
  expect_ok(stale);
  for (const char* part : {"lists tensors that no file has: mtp.fc.weight", "--ignore-extra 'x' matches no"})
    EXPECT_NE(stale.err.find(part), std::string::npos) << stale.err;
  expect_usage_error(run_tool("genesis-build", {"qwen2", "-o", path("m.genesis"), "--ignore-extra", "x"}),
                     {"--ignore-extra", "model of the zoo"});
}

// A setting that a newer PEFT may have added is passed over, and told of if it is on.
TEST_F(Import, TellsOfSettingsOfAnAdapterThatAreNotKnown) {
  fs::copy(folder("qwen2_lora"), path("adapter"));
  auto config = parse_json_text(read_text(path("adapter/adapter_config.json")));
  config.update(
      {{"use_new_trick", true}, {"new_rank", 3}, {"use_old_trick", false}, {"old_config", nullptr}});
  write_text(path("adapter/adapter_config.json"), config.dump());
  expect_ok(run_tool("genesis-build", {folder("qwen2_tied"), "-o", path("m.genesis")}));
  const Process process =
      run_tool("genesis-opt", {path("m.genesis"), "--adapter", path("adapter"), "-o", path("with.genesis")});
  expect_ok(process);
  EXPECT_NE(
      process.err.find("adapter_config.json: these settings are not known and are passed over: new_rank = 3, "
                       "use_new_trick = true\n"),
      std::string::npos)
      << process.err;
}

// Covers every file of the folder that git-lfs may have left as a pointer.
TEST_F(Import, NamesPointersOfGitLfs) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') + "\nsize 123456\n";
  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "generation_config.json"}) {
    fs::remove_all(path("hub"));
    fs::copy(folder("qwen2_tied"), path("hub"));
    write_text(path("hub/") + file, pointer);
    expect_refused(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}),
                   {file, "pointer of git-lfs", "git lfs pull"});
  }
  for (const char* file : {"m.gguf", "m.genesis", "m.safetensors"}) {
    write_text(path(file), pointer);
    expect_error(run_tool("genesis-build", {path(file), "-o", path("n.genesis")}),
                 {file, "pointer of git-lfs"});
  }
  expect_error(run_tool("genesis-run", {"info", path("m.genesis")}), {"m.genesis", "pointer of git-lfs"});
  for (const char* file : {"text.jsonl", "text.txt"}) {
    write_text(path(file), pointer);
    expect_error(run_tool("genesis-run", {"eval", tiny("qwen2.genesis"), "--data", path(file)}),
                 {file, "pointer of git-lfs"});
    expect_error(run_tool("genesis-run", {"train", tiny("qwen2.train.genesis"), "--data", path(file)}),
                 {file, "pointer of git-lfs"});
  }
}

TEST_F(Import, WithLinksIsTheSameModel) {
  fs::copy(folder("qwen2_sharded"), path("hub"), fs::copy_options::recursive);
  expect_ok(run_tool("genesis-build", {path("hub"), "--link", "-o", path("linked.genesis")}));
  expect_ok(run_tool("genesis-build", {path("hub"), "-o", path("copied.genesis")}));
  EXPECT_LT(fs::file_size(path("linked.genesis")) + 20'000, fs::file_size(path("copied.genesis")));
  const auto tokens = [&](const char* file) {
    return expect_json(
        run_tool("genesis-run", {"infer", path(file), "--size", "seq=3", "--json"}))["outputs"];
  };
  EXPECT_EQ(tokens("linked.genesis"), tokens("copied.genesis"));
  const std::string weights = path("hub/model-00001-of-00003.safetensors"), before = read_text(weights);
  expect_error(run_tool("genesis-build", {path("hub"), "--link", "-o", weights}), {weights, "would be lost"});
  EXPECT_EQ(read_text(weights), before);
  fs::remove(path("hub/model-00002-of-00003.safetensors"));
  expect_error(run_tool("genesis-run", {"info", path("linked.genesis")}),
               {"model-00002-of-00003.safetensors", "is not there", "--link"});
  expect_usage_error(run_tool("genesis-build", {"mlp", "--link", "-o", path("m.genesis")}),
                     {"--link", "zoo"});
}

TEST_F(Import, WithLinksCopiesWhatHasAnotherFormThere) {
  expect_ok(run_tool("genesis-build", {folder("gpt2"), "--link", "-o", path("linked.genesis")}));
  expect_ok(run_tool("genesis-run", {"info", path("linked.genesis"), "--verify"}));
}

TEST_F(Import, KeepsQuantizedWeightsOrWidensThem) {
  const auto says = [&](const std::vector<std::string>& flags, const std::string& expected) {
    std::vector<std::string> command = {folder("quantized/gptq"), "-o", path("m.genesis")};
    command.insert(command.end(), flags.begin(), flags.end());
    const Process made = run_tool("genesis-build", command);
    EXPECT_EQ(made.code, 0);
    EXPECT_NE(made.err.find(expected), std::string::npos) << made.err;
    const auto states = expect_json(
        run_tool("genesis-run", {"info", path("m.genesis"), "--states", "--json"}))["state_table"];
    return std::ranges::count_if(states, [](const auto& state) { return state.contains("format"); });
  };
  EXPECT_EQ(says({}, "weights quantized by gptq: 7 tensors kept as q4; activations are not quantized"), 7);
  EXPECT_EQ(says({"--widen"}, "7 tensors widened from gptq of 4 bits to f16"), 0);
  expect_usage_error(run_tool("genesis-build", {"qwen2", "-o", path("m.genesis"), "--widen"}),
                     {"--widen", "model of the zoo"});
}

TEST_F(Import, TakesAGgufFile) {
  const std::string file = std::string(GENESIS_SOURCE_ROOT) + "/tests/models/gguf/llama.gguf";
  const auto made = expect_json(run_tool("genesis-build", {file, "-o", path("m.genesis"), "--json"}));
  EXPECT_EQ(made["model"], "llama");
  expect_usage_error(run_tool("genesis-build", {file, "--seed", "3", "-o", path("n.genesis")}),
                     {"--seed", "a file of weights"});
  expect_error(run_tool("genesis-build", {path("none.gguf"), "-o", path("n.genesis")}), {"none.gguf"});
  for (const char* name : {"a b.GGUF", "sha256-0123"}) {
    fs::copy_file(file, path(name));
    expect_ok(run_tool("genesis-build", {path(name), "-o", path("n.genesis")}));
  }
}

TEST_F(Import, GivesAGgufFileTheTokenizerThatIsNamed) {
  const std::string file = std::string(GENESIS_SOURCE_ROOT) + "/tests/models/gguf/llama.gguf";
  const std::string tokenizer = std::string(GENESIS_SOURCE_ROOT) + "/tests/models/tokenizer/gpt2.json";
  expect_error(run_tool("genesis-build", {file, "--tokenizer", tokenizer, "-o", path("m.genesis")}),
               {"gpt2.json", "tokens, more than the model has"});
  write_text(path("tokenizer.json"),
             R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
                 "pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}})");
  expect_ok(
      run_tool("genesis-build", {file, "--tokenizer", path("tokenizer.json"), "-o", path("m.genesis")}));
  const auto files = expect_json(run_tool("genesis-run", {"info", path("m.genesis"), "--json"}))["files"];
  EXPECT_TRUE(files.contains("tokenizer.json")) << files.dump();
}

TEST_F(Import, RefusesNumbersThatF32CannotHold) {
  const std::string config = read_text(folder("qwen2_yarn") + "/config.json");
  fs::copy(folder("qwen2_yarn"), path("hub"));
  const auto refused = [&](const std::string& key, const Words& at, const Words& parts) {
    nlohmann::json changed = parse_json_text(config);
    nlohmann::json* of = &changed;
    for (const std::string& name : at) of = &(*of)[name];
    (*of)[key] = 1e39;
    write_text(path("hub/config.json"), changed.dump());
    expect_refused(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}), parts + Words{"1e+39"});
  };
  refused("rms_norm_eps", {}, {"rms_norm_eps", "f32"});
  for (const char* scaling : {"rope_parameters", "rope_scaling"})
    if (parse_json_text(config).contains(scaling)) refused("beta_fast", {scaling}, {"beta_fast"});
}

TEST_F(Import, OfWeightsThatAreNotTheConfigurationsSaysWhatToDo) {
  fs::copy(folder("qwen2_tied"), path("hub"));
  nlohmann::json config = parse_json_text(read_text(path("hub/config.json")));
  config["intermediate_size"] = 32;
  write_text(path("hub/config.json"), config.dump());
  const Process refused = run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")});
  expect_refused(refused, {"mlp", "of one model", "genesis-build --set NAME=VALUE"});
  EXPECT_EQ(refused.err.find("strict"), std::string::npos) << refused.err;
}

TEST_F(Import, NamesNumbersThatPythonWritesAsWords) {
  fs::copy(folder("qwen2_tied"), path("hub"));
  const auto config = parse_json_text(read_text(path("hub/config.json")));
  for (const char* word : {"NaN", "Infinity", "-Infinity"}) {
    std::string text = config.dump();
    const std::string name = "\"rms_norm_eps\":";
    const size_t at = text.find(name) + name.size();
    text.replace(at, text.find(',', at) - at, std::string(" ") + word);
    write_text(path("hub/config.json"), text);
    expect_refused(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}),
                   {"config.json", std::string("'rms_norm_eps' is ") + word, "no number of JSON"});
  }
}

TEST_F(Import, OfAFolderWithoutAModelSaysSo) {
  expect_error(run_tool("genesis-build", {path("."), "-o", path("m.genesis")}), {"there is no config.json"});
}

}  // namespace
}  // namespace genesis::testing
