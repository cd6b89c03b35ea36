// Tests every #include of the tree against the layers of docs/architecture.md and the modules inside them: includes
// go neither upward nor sideways. cycles_test.cpp tests for cycles.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> kLayers = {
    {"schema", {}},
    {"builder", {"schema"}},
    {"passes", {"schema"}},
    {"backends", {"schema"}},
    {"executor", {"schema", "passes", "backends"}},
    {"models", {"schema", "builder", "passes", "backends", "executor"}},
    {"bindings", {"schema", "builder", "passes", "backends", "executor", "models"}},
    {"tools", {"schema", "builder", "passes", "backends", "executor", "models"}},
};

// The modules inside the big layers, each of which is a folder. A module may include those listed beside it, and
// itself. Two modules of a layer that included each other would be one module. hopper/, decode/ and
// executor/cuda/megakernel are leaves: only a row of a list refers to each, so that each can be deleted.
const std::map<std::string, std::set<std::string>> kModules = {
    {"schema", {}},
    {"schema/messages", {}},
    {"schema/core", {"schema/messages"}},
    {"schema/ranks", {"schema/core"}},
    {"schema/encoding", {"schema/core"}},
    {"schema/graph", {"schema", "schema/core", "schema/encoding", "schema/messages"}},
    {"schema/ops", {"schema/core", "schema/graph"}},
    {"schema/ops/elementwise", {"schema/core", "schema/graph", "schema/ops"}},
    {"schema/ops/tensor", {"schema/core", "schema/graph", "schema/ops", "schema/ops/elementwise"}},
    {"schema/ops/nn",
     {"schema/core", "schema/encoding", "schema/graph", "schema/ops", "schema/ops/elementwise",
      "schema/ops/tensor"}},
    {"schema/ops/collective", {"schema/graph", "schema/ops", "schema/ops/elementwise", "schema/ranks"}},
    {"schema/file/io", {"schema/core"}},
    {"schema/file/format", {"schema", "schema/core", "schema/encoding", "schema/graph"}},
    {"schema/file/links", {"schema/core", "schema/file/format", "schema/file/io", "schema/graph"}},
    {"schema/file",
     {"schema", "schema/core", "schema/encoding", "schema/file/format", "schema/file/io", "schema/file/links",
      "schema/graph", "schema/messages"}},
    {"schema/file/other_formats", {"schema/core", "schema/file", "schema/file/format", "schema/file/io"}},
    {"schema/file/other_formats/onnx", {"schema/core", "schema/file/io", "schema/file/other_formats"}},

    {"passes/core", {}},
    {"passes/simplify", {"passes/core"}},
    {"passes/distribution", {"passes/core", "passes/distribution/sharding"}},
    {"passes/distribution/pipeline", {"passes/core"}},
    {"passes/distribution/sharding", {"passes/core"}},
    {"passes/fusion", {"passes/core"}},
    {"passes/fusion/elementwise", {"passes/core"}},
    {"passes/grouping", {"passes/core", "passes/memory"}},
    {"passes/precision", {"passes/core"}},
    {"passes/memory", {"passes/core", "passes/memory/offsets"}},
    {"passes/memory/offsets", {}},
    {"passes",
     {"passes/core", "passes/distribution", "passes/distribution/pipeline", "passes/fusion",
      "passes/fusion/elementwise", "passes/grouping", "passes/memory", "passes/precision",
      "passes/simplify"}},
    {"passes/training", {"passes", "passes/core", "passes/precision"}},
    {"passes/lora", {"passes/core", "passes/training"}},

    {"backends", {}},
    {"backends/common", {"backends"}},
    {"backends/common/moves", {"backends"}},
    {"backends/cpu/parallel", {}},
    {"backends/cpu/simd", {"backends"}},
    {"backends/cpu/moves", {"backends/common/moves", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/reduce", {"backends/common", "backends/common/moves", "backends/cpu/simd"}},
    {"backends/cpu/gemm", {"backends", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/gemm/amx", {"backends/cpu/gemm", "backends/cpu/simd"}},
    {"backends/cpu/gemm/bf16_dot", {"backends/cpu/gemm"}},
    {"backends/cpu/gemm/gemv",
     {"backends", "backends/common", "backends/cpu", "backends/cpu/gemm", "backends/cpu/kernels/nn",
      "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/attention", {"backends", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/attention/decode",
     {"backends/cpu/attention", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/fused", {"backends", "backends/cpu/parallel", "backends/cpu/reduce", "backends/cpu/simd"}},
    {"backends/cpu/convolution",
     {"backends", "backends/common", "backends/cpu/moves", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/loss", {"backends", "backends/common", "backends/cpu/gemm", "backends/cpu/simd"}},
    {"backends/cpu/quantized",
     {"backends/common", "backends/cpu", "backends/cpu/gemm", "backends/cpu/gemm/gemv",
      "backends/cpu/parallel"}},
    {"backends/cpu", {"backends", "backends/cpu/gemm", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/kernels/collective", {"backends/common"}},
    {"backends/cpu/kernels/nn",
     {"backends", "backends/common", "backends/cpu", "backends/cpu/attention", "backends/cpu/convolution",
      "backends/cpu/gemm", "backends/cpu/loss", "backends/cpu/parallel", "backends/cpu/simd"}},
    {"backends/cpu/kernels/tensor",
     {"backends", "backends/common", "backends/common/moves", "backends/cpu", "backends/cpu/fused",
      "backends/cpu/moves", "backends/cpu/parallel", "backends/cpu/reduce", "backends/cpu/simd"}},
    {"backends/mpi", {"backends"}},
    {"backends/mpi/loopback", {}},
    {"backends/mpi/plugin", {"backends", "backends/mpi"}},
    {"backends/cuda/runtime", {"backends"}},
    {"backends/cuda/nccl", {"backends", "backends/cuda/runtime"}},
    {"backends/cuda/device", {"backends", "backends/common", "backends/cuda/runtime"}},
    {"backends/cuda/ranks",
     {"backends", "backends/cuda/device", "backends/cuda/nccl", "backends/cuda/runtime"}},
    {"backends/cuda/moves",
     {"backends", "backends/common/moves", "backends/cuda/device", "backends/cuda/runtime"}},
    {"backends/cuda/rows", {"backends/common", "backends/cuda/device", "backends/cuda/gemm"}},
    {"backends/cuda/gemm", {"backends/cuda/device"}},
    {"backends/cuda/gemm/bias_grad",
     {"backends/common", "backends/cuda", "backends/cuda/device", "backends/cuda/gemm/lt",
      "backends/cuda/runtime"}},
    {"backends/cuda/gemm/few_rows",
     {"backends", "backends/common", "backends/cuda", "backends/cuda/device", "backends/cuda/gemm",
      "backends/cuda/runtime"}},
    {"backends/cuda/gemm/lt", {"backends/cuda/gemm", "backends/cuda/runtime"}},
    {"backends/cuda/cudnn", {"backends/cuda/runtime"}},
    {"backends/cuda/convolution",
     {"backends", "backends/common", "backends/cuda/cudnn", "backends/cuda/device", "backends/cuda/gemm",
      "backends/cuda/runtime"}},
    {"backends/cuda/attention", {"backends/cuda/device", "backends/cuda/runtime"}},
    {"backends/cuda/attention/cudnn",
     {"backends/cuda", "backends/cuda/attention", "backends/cuda/cudnn", "backends/cuda/device",
      "backends/cuda/runtime"}},
    {"backends/cuda/attention/ranges", {"backends/cuda/attention", "backends/cuda/device"}},
    {"backends/cuda/attention/split", {"backends/cuda/attention", "backends/cuda/device"}},
    {"backends/cuda/codegen", {"backends/cuda/runtime"}},
    {"backends/cuda/hopper", {"backends", "backends/cuda/device", "backends/cuda/runtime"}},
    {"backends/cuda/hopper/attention_gradient",
     {"backends", "backends/cuda/attention", "backends/cuda/device", "backends/cuda/hopper",
      "backends/cuda/runtime"}},
    {"backends/cuda/hopper/depthwise",
     {"backends/cuda/convolution", "backends/cuda/device", "backends/cuda/hopper", "backends/cuda/runtime"}},
    {"backends/cuda/hopper/grouped",
     {"backends/cuda", "backends/cuda/device", "backends/cuda/hopper", "backends/cuda/runtime"}},
    {"backends/cuda/hopper/long_heads",
     {"backends/cuda/attention", "backends/cuda/device", "backends/cuda/hopper", "backends/cuda/runtime"}},
    {"backends/cuda/hopper/logits",
     {"backends/cuda/device", "backends/cuda/hopper", "backends/cuda/rows", "backends/cuda/runtime"}},
    {"backends/cuda/hopper/pointwise",
     {"backends/cuda/convolution", "backends/cuda/device", "backends/cuda/hopper", "backends/cuda/runtime"}},
    {"backends/cuda/hopper/row_tiles",
     {"backends/cuda", "backends/cuda/device", "backends/cuda/gemm/few_rows", "backends/cuda/hopper",
      "backends/cuda/runtime"}},
    {"backends/cuda/hopper/skinny",
     {"backends/cuda", "backends/cuda/device", "backends/cuda/gemm/few_rows", "backends/cuda/hopper",
      "backends/cuda/runtime"}},
    {"backends/cuda/hopper/swiglu",
     {"backends/common", "backends/cuda", "backends/cuda/device", "backends/cuda/hopper",
      "backends/cuda/runtime"}},
    {"backends/cuda/decode", {"backends/cuda/attention", "backends/cuda/device", "backends/cuda/runtime"}},
    {"backends/cuda", {"backends", "backends/cuda/gemm", "backends/cuda/runtime"}},
    {"backends/cuda/kernels/collective",
     {"backends/common", "backends/cuda/device", "backends/cuda/moves", "backends/cuda/runtime"}},
    {"backends/cuda/kernels/nn",
     {"backends/common", "backends/cuda", "backends/cuda/attention", "backends/cuda/convolution",
      "backends/cuda/device", "backends/cuda/hopper", "backends/cuda/moves", "backends/cuda/rows",
      "backends/cuda/runtime"}},
    {"backends/cuda/kernels/nn/delta_chunks",
     {"backends/cuda/device", "backends/cuda/kernels/nn", "backends/cuda/runtime"}},
    {"backends/cuda/kernels/nn/expert_tiles", {"backends/cuda/device", "backends/cuda/kernels/nn"}},
    {"backends/cuda/kernels/nn/grouped",
     {"backends/cuda", "backends/cuda/attention", "backends/cuda/device", "backends/cuda/kernels/nn"}},
    {"backends/cuda/kernels/nn/one_start",
     {"backends/cuda/attention", "backends/cuda/device", "backends/cuda/kernels/nn",
      "backends/cuda/runtime"}},
    {"backends/cuda/kernels/tensor",
     {"backends", "backends/common", "backends/common/moves", "backends/cuda/codegen", "backends/cuda/device",
      "backends/cuda/moves", "backends/cuda/rows", "backends/cuda/runtime"}},

    {"executor/distributed", {"executor", "executor/runtime"}},
    {"executor/runtime", {}},
    {"executor/cpu", {"executor/runtime"}},
    {"executor/cuda", {"executor/runtime"}},
    {"executor/cuda/megakernel", {"executor/cuda"}},
    {"executor/states", {"executor/runtime"}},
    {"executor", {"executor/runtime", "executor/states"}},
    {"executor/generation", {"executor"}},
    {"executor/training", {"executor", "executor/states"}},
    {"executor/inspection", {"executor", "executor/distributed", "executor/runtime"}},

    {"models", {"models/formats"}},
    {"models/chat",
     {"models/chat/jinja", "models/chat/jinja/values", "models/generation", "models/tokenizer",
      "models/tokenizer/unicode"}},
    {"models/chat/jinja",
     {"models/chat/jinja/library", "models/chat/jinja/syntax", "models/chat/jinja/values"}},
    {"models/chat/jinja/library", {"models/chat/jinja/values"}},
    {"models/chat/jinja/syntax", {"models/chat/jinja/values"}},
    {"models/chat/jinja/values", {}},
    {"models/corpus", {}},
    {"models/data",
     {"models/chat", "models/chat/jinja/values", "models/corpus", "models/images", "models/tokenizer"}},
    {"models/families", {"models", "models/families/decoder", "models/families/encoder"}},
    {"models/families/decoder", {"models", "models/formats"}},
    {"models/families/encoder", {"models"}},
    {"models/families/experts", {"models", "models/families/decoder"}},
    {"models/families/hybrid", {"models", "models/families/decoder"}},
    {"models/families/vision", {"models", "models/images"}},
    {"models/formats", {}},
    {"models/formats/gguf", {"models", "models/formats/hugging_face", "models/tokenizer"}},
    {"models/formats/hugging_face", {"models", "models/formats/hugging_face/quantized", "models/tokenizer"}},
    {"models/formats/hugging_face/quantized", {}},
    {"models/formats/onnx", {"models/formats"}},
    {"models/formats/onnx/export", {"models/formats"}},
    {"models/formats/pt2", {"models/formats"}},
    {"models/generation", {}},
    {"models/tokenizer", {"models", "models/tokenizer/unicode", "models/tokenizer/words"}},
    {"models/grammar", {}},
    {"models/hub",
     {"models", "models/formats/gguf", "models/formats/hugging_face", "models/formats/onnx",
      "models/formats/pt2"}},
    {"models/images", {}},
    {"models/serving",
     {"models", "models/chat", "models/chat/jinja/values", "models/formats/hugging_face", "models/generation",
      "models/grammar", "models/text", "models/tokenizer/unicode"}},
    {"models/jobs",
     {"models", "models/chat", "models/corpus", "models/data", "models/generation", "models/images",
      "models/text", "models/tokenizer"}},
    {"models/text",
     {"models", "models/chat", "models/chat/jinja/values", "models/corpus", "models/data",
      "models/generation", "models/tokenizer", "models/tokenizer/unicode"}},
    {"models/tokenizer/training",
     {"models/corpus", "models/tokenizer", "models/tokenizer/unicode", "models/tokenizer/words"}},
    {"models/tokenizer/unicode", {}},
    {"models/tokenizer/words", {"models/tokenizer/unicode"}},
};

// Returns the module of a file; empty if its layer has no modules.
std::string module_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  return kModules.contains(folder) ? folder : "";
}

// Returns true if the table has modules of this layer. The modules of builder and tools do not matter to others.
bool has_modules(const std::string& layer) {
  const auto is_there = [&](const auto& row) { return row.first.starts_with(layer + "/"); };
  return std::any_of(kModules.begin(), kModules.end(), is_there);
}

std::string layer_of(const std::string& path) { return path.substr(0, path.find('/')); }

// Returns the file name in an #include "..."; empty for any other line.
std::string included_file(const std::string& line) {
  const std::string start = "#include \"";
  if (line.rfind(start, 0) != 0) return "";
  return line.substr(start.size(), line.find('"', start.size()) - start.size());
}

std::string included_folder(const std::string& line) {
  const std::string start = "#include \"";
  if (line.rfind(start, 0) != 0) return "";
  const size_t slash = line.find('/', start.size());
  return slash == std::string::npos ? "" : line.substr(start.size(), slash - start.size());
}

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".cu" ||
         path.extension() == ".cuh";
}

TEST(Layering, NoIncludeRunsUpwardOrSideways) {
  int files = 0;
  for (const auto& [folder, allowed] : kLayers) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      if (!is_source(entry.path())) continue;
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        const std::string target = included_folder(line);
        if (target.empty() || target == folder) continue;
        EXPECT_TRUE(allowed.contains(target))
            << entry.path() << " may not include " << target << "/: " << line;
      }
    }
  }
  EXPECT_GT(files, 50) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
}

TEST(Layering, ModulesIncludeOnlyWhatTheTableSays) {
  int includes = 0;
  std::set<std::string> used;
  for (const auto& [folder, allowed] : kLayers)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      if (!is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), GENESIS_SOURCE_ROOT).string(),
                        module = module_of(file);
      if (module.empty()) {
        EXPECT_FALSE(has_modules(folder)) << file << " is in a module that the table lacks";
        continue;
      }
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        const std::string target = module_of(included_file(line));
        if (target.empty() || target == module || layer_of(target) != layer_of(module)) continue;
        ++includes;
        used.insert(module + " " + target);
        EXPECT_TRUE(kModules.at(module).contains(target))
            << file << " may not include " << target << "/: " << line;
      }
    }
  EXPECT_GT(includes, 300) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
  for (const auto& [module, allowed] : kModules)
    for (const std::string& target : allowed)
      EXPECT_TRUE(used.contains(module + " " + target))
          << module << " no longer needs " << target << ": remove it from the table";
}

// The modules of backends that higher layers may include: a device's runner includes that device's modules, and all
// others include what the devices share.
const std::map<std::string, std::set<std::string>> kBackendsFromAbove = {
    {"executor", {"backends"}},
    {"executor/cpu", {"backends", "backends/cpu", "backends/cpu/parallel"}},
    {"executor/cuda",
     {"backends", "backends/common", "backends/cuda", "backends/cuda/ranks", "backends/cuda/runtime"}},
    {"executor/cuda/megakernel", {"backends/cuda/decode", "backends/cuda/runtime"}},
    {"executor/distributed", {"backends", "backends/cuda/ranks", "backends/mpi"}},
    {"executor/inspection", {"backends"}},
    {"executor/runtime", {"backends", "backends/cpu", "backends/cpu/parallel", "backends/mpi"}},
    {"executor/states", {"backends", "backends/cpu/parallel"}},
};

TEST(Layering, LayersAboveIncludeFewModulesOfBackends) {
  std::map<std::string, std::set<std::string>> seen;
  for (const auto& [folder, allowed] : kLayers) {
    if (folder == "backends") continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      if (!is_source(entry.path())) continue;
      const fs::path file = fs::relative(entry.path(), GENESIS_SOURCE_ROOT);
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        const std::string target = included_file(line);
        if (layer_of(target) != "backends") continue;
        const std::string module = fs::path(target).parent_path().string();
        seen[file.parent_path().string()].insert(module);
      }
    }
  }
  EXPECT_EQ(seen, kBackendsFromAbove);
}

// Benchmarks measure the library, so bench includes no tool. Code that two modules of bench/ need is in bench/common.
TEST(Layering, ModulesOfBenchIncludeEachOtherOnlyOverCommon) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / "bench")) {
    if (!is_source(entry.path())) continue;
    ++files;
    const std::string module = fs::relative(entry.path().parent_path(), GENESIS_SOURCE_ROOT);
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      const std::string layer = included_folder(line);
      EXPECT_NE(layer, "tools") << entry.path() << ": " << line;
      if (layer != "bench") continue;
      const std::string target = fs::path(included_file(line)).parent_path();
      EXPECT_TRUE(target == module || target == "bench/common")
          << entry.path() << " may not include " << target;
    }
  }
  EXPECT_GT(files, 20) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
}

// Checks that modules can be built one after another: no chain of includes leads from a module back to itself.
TEST(Layering, ModulesHaveNoCycle) {
  std::set<std::string> settled;
  for (size_t before = kModules.size(); settled.size() < before;) {
    const size_t size = settled.size();
    for (const auto& [module, allowed] : kModules)
      if (std::all_of(allowed.begin(), allowed.end(),
                      [&](const std::string& r) { return settled.contains(r); }))
        settled.insert(module);
    ASSERT_GT(settled.size(), size) << "a cycle among the modules that are not settled yet";
  }
}

// docs/images/modules.py draws the picture. It must show every module, and every arrow must be a line of the table.
TEST(Layering, ThePictureShowsTheModules) {
  std::ifstream in(fs::path(GENESIS_SOURCE_ROOT) / "docs/images/modules.svg");
  std::set<std::string> modules;
  const std::string begin = "<title>", arrow = "&#45;&gt;";
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(begin);
    if (at == std::string::npos) continue;
    const std::string title = line.substr(at + begin.size(), line.find('<', at + 1) - at - begin.size());
    const size_t to = title.find(arrow);
    const std::string module = title.substr(0, to);
    if (!kModules.contains(module)) continue;  // the frame of a layer, or a layer without modules
    modules.insert(module);
    if (to == std::string::npos) continue;
    const std::string target = title.substr(to + arrow.size());
    const auto& allowed =
        layer_of(module) == layer_of(target) ? kModules.at(module) : kLayers.at(layer_of(module));
    EXPECT_TRUE(allowed.contains(layer_of(module) == layer_of(target) ? target : layer_of(target))) << title;
  }
  for (const auto& [module, allowed] : kModules)
    EXPECT_TRUE(modules.contains(module))
        << module << " is not in docs/images/modules.svg: run docs/images/modules.py";
}

// Returns the files of these folders that include a header whose name contains `part`.
std::set<std::string> files_that_include(const std::string& part, const std::set<std::string>& folders) {
  std::set<std::string> users;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      if (!is_source(entry.path())) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        if (line.find("#include") == 0 && line.find(part) != std::string::npos)
          users.insert(fs::relative(entry.path(), GENESIS_SOURCE_ROOT));
    }
  return users;
}

TEST(Layering, OneFileIncludesGeneratedFlatBuffersCode) {
  std::set<std::string> layers;
  for (const auto& [folder, allowed] : kLayers) layers.insert(folder);
  EXPECT_EQ(files_that_include("_generated.h", layers).size(), 1u);
}

// CLI11 takes longer to compile than a command does. Other files declare their options through tools/common/command.h
// or bench/common/options.h.
TEST(Layering, FewFilesIncludeCli11) {
  const std::set<std::string> expected = {"bench/common/options.cpp", "tools/common/command.cpp",
                                          "tools/common/tool.cpp", "tools/common/usage.cpp"};
  EXPECT_EQ(files_that_include("CLI/", {"bench", "tools", "tests"}), expected);
}

}  // namespace
