// Tests files that are refused with a reason, and the upgraders that keep old files readable.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "schema/file/format/flat.h"
#include "schema/file/format/format.h"
#include "schema/file/format/upgrade.h"
#include "schema/file/layout.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/resident_bytes.h"
#include "tests/sanitized.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
using file::EntryRecord;
using file::ModelRecord;

std::string refusal_of(const std::string& bytes, const LoadOptions& options = {}) {
  try {
    load_bytes(bytes, options);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << part << " / " << message;
}

TEST(FileRefusal, WhatIsNoGenesisFile) {
  expect_says(refusal_of(""), "not a .genesis file");
  expect_says(refusal_of("GGUF and more"), "not a .genesis file");
  expect_says(load_error("/nowhere/m.genesis"), "cannot open '/nowhere/m.genesis': No such file");
  expect_says(load_error("/tmp"), "it is a folder");
  expect_says(load_error("/dev/null"), "not a regular file");
}

TEST(FileRefusal, EveryTruncationAndAnythingBehindTheEnd) {
  const std::string bytes = file_of(*rich_model());
  EXPECT_EQ(refusal_of(bytes), "");
  for (size_t size = 1; size < 64; ++size)
    expect_says(refusal_of(bytes.substr(0, size)), size < 8 ? "" : "cut short");
  for (size_t size = 64; size < bytes.size(); size += 61)
    expect_says(refusal_of(bytes.substr(0, size)), "cut short");
  expect_says(refusal_of(bytes + '\0'), "longer than it should be");
}

TEST(FileRefusal, EveryFlippedBitOfHeaderAndGraph) {
  const std::string bytes = file_of(*rich_model());
  const auto graph_bytes =
      file::decode_header(std::as_bytes(std::span(bytes)).first(file::kHeaderBytes), bytes.size())
          .graph_bytes;
  for (size_t at = 0; at < file::kHeaderBytes + graph_bytes; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    EXPECT_NE(refusal_of(damaged), "") << at;
  }
}

TEST(FileRefusal, ANewerFormat) {
  std::string bytes = file_of(*rich_model());
  bytes[8] = 5;
  expect_says(refusal_of(bytes),
              "format version 5.0, this version of Genesis reads up to 4.x: use a newer Genesis");
}

// Returns a rich model's file with its records changed by `change` and a correct hash.
std::string changed(const std::function<void(ModelRecord&)>& change) {
  const auto model = rich_model();
  const file::Layout layout = file::lay_out(*model, {.segment_bytes = 1 << 20});
  ModelRecord record = layout.record;
  change(record);
  return file_of(record, std::string(layout.data_bytes, '\0'));
}

TEST(FileRefusal, MissingAndNewerOpsAreListedInOneError) {
  const std::string message = refusal_of(changed([](ModelRecord& record) {
    record.entries[0].nodes[0].op = "warp";
    record.entries[0].nodes[1].op_version = 7;
    record.entries[1].nodes[0].op = "warp";
    record.entries[1].nodes[1].op = "weave";
    record.producer = "genesis 9.9";
  }));
  expect_says(message, "written by 'genesis 9.9'");
  expect_says(message, "warp version 1 (not here), 2 nodes, first 'layers.add'");
  expect_says(message, "weave version 1 (not here), 1 node,");
  expect_says(message, "gelu version 7 (here: version 1), 1 node,");
}

TEST(FileRefusal, RecordsThatSayTheImpossible) {
  const std::pair<std::function<void(ModelRecord&)>, const char*> cases[] = {
      {[](auto& r) { r.segments[0].offset = 4096; }, "segment of"},
      {[](auto& r) { r.segments[0].bytes += 1; }, "segment of"},
      {[](auto& r) { r.segments[0].bytes -= 1; }, "segments end at"},
      {[](auto& r) { r.segments.clear(); }, "segments end at 0"},
      {[](auto& r) { r.tensors[0].segment = 9; }, "it is in segment 9"},
      {[](auto& r) { r.tensors[0].offset = uint64_t{1} << 63; }, "lie outside its segment"},
      {[](auto& r) { r.tensors[1].offset = 1 << 20; }, "lie outside its segment"},
      {[](auto& r) { r.tensors[0].offset = 4; }, "not a multiple of 256"},
      {[](auto& r) { r.tensors[0].bytes -= 4; }, "20 bytes given for f32[2,3], which takes 24"},
      {[](auto& r) {
         r.tensors[1].type = {DType::f32, {INT64_MAX / 2, 8}};
       },
       "the limit for one tensor"},
      {[](auto& r) {
         r.tensors[1].type = {DType::f32, {0, int64_t{1} << 61, 4}};
       },
       "the limit for one tensor"},
      {[](auto& r) {
         r.tensors[1].type = {DType::f32, {-3}};
       },
       "negative size"},
      {[](auto& r) { r.tensors[1].offset = 0; }, "overlap in the file"},
      {[](auto& r) { r.constants[0].tensor = 99; }, "constant 'mask' is tensor 99"},
      {[](auto& r) { r.constants[1].name = "mask"; }, "two of the file's constants are named 'mask'"},
      {[](auto& r) { r.states[1].name = "embed.weight"; }, "two of the file's states"},
      {[](auto& r) { r.states[0].name = ""; }, "is empty"},
      {[](auto& r) { r.states[0].name = "a\nb"; }, "control characters"},
      {[](auto& r) { r.states[0].name = std::string(5000, 'a'); }, "5000 bytes, the limit is 4096"},
      {[](auto& r) { r.states[0].name = std::string("a\0b", 3); }, "control characters"},
      {[](auto& r) { r.states[0].name = "a\xc2\x9b"; }, "control characters"},
      {[](auto& r) { r.states[0].name = "a\xff"; }, "not valid UTF-8"},
      {[](auto& r) { r.entries[0].values[0].name = "\xc0\x80"; }, "not valid UTF-8"},
      {[](auto& r) { r.metadata["key\x1b"] = "value"; }, "control characters"},
      {[](auto& r) { r.files[0].name = "../a"; }, "may hold no '/'"},
      {[](auto& r) { r.files[0].name = ".."; }, "neither '.' nor '..'"},
      {[](auto& r) { r.files[0].name = ""; }, "is empty"},
      {[](auto& r) { r.files[0].name = std::string(256, 'a'); }, "256 bytes, the limit is 255"},
      {[](auto& r) { r.files[0].name = r.files[1].name; }, "two of the file's files"},
      {[](auto& r) { r.files[0].tensor = 99; }, "it is tensor 99"},
      {[](auto& r) { r.files[0].tensor = 0; }, "expected u8[bytes]"},
      {[](auto& r) { r.files.resize(1025, r.files[0]); }, "1025 files, the limit is 1024"},
      {[](auto& r) { r.producer = "\xed\xa0\x80"; }, "the producer is not valid UTF-8"},
      {[](auto& r) { r.states[0].initial = 50; }, "it starts as tensor 50"},
      {[](auto& r) { r.states[0].initial = -2; }, "it starts as tensor -2"},
      {[](auto& r) {
         r.states[0].type = {DType::f32, {6}};
       },
       "it is f32[6], its initial tensor f32[2,3]"},
      {[](auto& r) { r.entries[0].values[0].type.shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}; }, "rank 9"},
      {[](auto& r) { r.entries[0].values[0].index = 1; }, "input 'x' has number 1"},
      {[](auto& r) { r.entries[0].values[0].name = ""; }, "the name of an input is empty"},
      {[](auto& r) { r.entries[0].values[1].index = 40; }, "a state's value is number 40 of 6"},
      {[](auto& r) { r.entries[0].nodes[0].inputs[0] = 2; }, "reads value 2, which is not made before it"},
      {[](auto& r) { r.entries[0].nodes[0].inputs[0] = -1; }, "reads value -1"},
      {[](auto& r) { r.entries[0].nodes[0].outputs.clear(); }, "its outputs are missing"},
      {[](auto& r) { r.entries[0].nodes[0].outputs = {3}; }, "its output 0 is value 3"},
      {[](auto& r) { r.entries[0].nodes.pop_back(); }, "belongs to no node"},
      {[](auto& r) { r.entries[0].nodes.push_back(r.entries[0].nodes[0]); }, "two of the file's nodes"},
      {[](auto& r) { r.entries[0].outputs[0].value = 1000; }, "output 'y' is value 1000"},
      {[](auto& r) { r.entries[1].updates[0].state = 6; }, "an update's state is number 6 of 6"},
      {[](auto& r) { r.entries[1].updates[1].state = 0; }, "state 'embed.weight' is f32[2,3], its new value"},
      {[](auto& r) { r.entries[1].name = "forward"; }, "two of the file's entry points"},
      {[](auto& r) { r.entries[0].nodes[0].inputs.push_back(0); }, "'add' takes 2 inputs, 3 were given"},
      {[](auto& r) { r.entries[0].nodes[1].attributes.set("warmth", AttrValue(true)); },
       "unknown attribute 'warmth'"},
      {[](auto& r) { r.entries[0].nodes[1].attributes.set("approximate", AttrValue(true)); },
       "expected string"},
      {[](auto& r) { r.entries[0].values[2].type.dtype = DType::f64; }, "it should be f32["},
  };
  for (const auto& [change, expected] : cases) expect_says(refusal_of(changed(change)), expected);
}

TEST(FileRefusal, BytesThatAreNoBools) {
  const auto model = rich_model();
  const file::Layout layout = file::lay_out(*model, {.segment_bytes = 1 << 20});
  expect_says(refusal_of(file_of(layout.record, std::string(layout.data_bytes, '\2'))),
              "other than 0 and 1 as bools (in tensor 'mask')");
}

TEST(FileRefusal, DimensionsThatExplode) {
  // Each node would square the degree of the size before it.
  Model model;
  const std::string product = "a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a";
  EXPECT_NO_THROW(Dim::parse(product));
  EXPECT_THROW(Dim::parse(product + "*a"), Error);
  std::string sum = "x0";
  for (int i = 1; i < 64; ++i) sum += "+x" + std::to_string(i);
  EXPECT_NO_THROW(Dim::parse(sum));
  EXPECT_THROW(Dim::parse(sum + "+y"), Error);
}

// The tables share one long text. The file stores it once and is small, but reading it would take much memory.
TEST(FileRefusal, AGraphThatRepeatsItself) {
  ModelRecord record;
  record.producer = "test";
  EntryRecord entry{.name = "forward", .values = {}, .nodes = {}, .outputs = {}, .updates = {}};
  for (int i = 0; i < 5000; ++i) entry.outputs.push_back({std::string(20000, 'a'), 0});
  record.entries.push_back(std::move(entry));
  const std::string bytes = file_of(record, "");
  EXPECT_LT(bytes.size(), 1000000U);
  expect_says(refusal_of(bytes), "repeats itself beyond any real use");
}

TEST(FileLarge, ALargeGraphLoadsQuickly) {
  Model model;
  Graph& graph = model.add_entry("forward");
  Value x = graph.add_input("x", {DType::f32, {Dim::symbol("batch"), Dim::symbol("seq"), 512}});
  for (int i = 0; i < 20000; ++i) {
    const NameScope scope(graph, "layers." + std::to_string(i) + ".self_attn");
    x = add(x, x);
  }
  graph.add_output("y", x);
  const std::string bytes = file_of(model);
  const double begin = testing::processor_seconds();
  load_bytes(bytes);
  const double seconds = testing::processor_seconds() - begin;
  RecordProperty("seconds", std::to_string(seconds));
  RecordProperty("bytes", std::to_string(bytes.size()));
  EXPECT_LT(seconds, 5.0);
}

TEST(FileRefusal, SavingAModelNoFileCanHold) {
  const TemporaryFolder folder;
  Model model;
  model.metadata["text"] = std::string(size_t{65} << 20, 'a');
  try {
    save_model(model, folder / "m.genesis");
    FAIL();
  } catch (const Error& error) {
    expect_says(error.message(), "the limit is 67108864");
  }
  model.metadata.clear();
  model.add_state({"bad\nname", {DType::f32, {}}, StateRole::kParameter, false, {}});
  EXPECT_THROW(save_model(model, folder / "m.genesis"), Error);
  EXPECT_EQ(folder.count_files(), 0U);
}

TEST(FileUpgrade, ChainsOverVersionsAndNames) {
  const file::OpUpgrade rows[] = {
      {"squash", 1, "squash", 2,
       [](file::NodeRecord& node) { node.attributes.set("axis", AttrValue(int64_t{-1})); }},
      {"squash", 2, "softmax", 3, [](file::NodeRecord&) {}},
      {"softmax", 3, "softmax", 4,
       [](file::NodeRecord& node) { node.attributes.set("wide", AttrValue(true)); }},
  };
  file::NodeRecord node;
  node.op = "squash";
  file::upgrade_node(node, rows);
  EXPECT_EQ(node.op, "softmax");
  EXPECT_EQ(node.op_version, 4);
  EXPECT_EQ(node.attributes.to_string(), "{axis=-1, wide=true}");
  node.op = "other";
  file::upgrade_node(node, rows);
  EXPECT_EQ(node.op_version, 4);
}

TEST(FileUpgrade, EveryRaisedOpVersionHasItsRows) {
  for (const OpDef* op : all_ops())
    for (int version = 1; version < op->info.version; ++version) {
      file::NodeRecord node;
      node.op = std::string(op->name());
      node.op_version = version;
      bool found = false;
      for (const file::OpUpgrade& row : file::op_upgrades())
        found |= row.op == op->name() && row.from_version == version;
      EXPECT_TRUE(found) << op->name() << " version " << version
                         << ": add a row to schema/file/format/upgrade.cpp";
    }
}

TEST(FileUpgrade, EveryRowLeadsToAnOpOfToday) {
  for (const file::OpUpgrade& row : file::op_upgrades()) {
    file::NodeRecord node;
    node.op = row.op;
    node.op_version = row.from_version;
    file::upgrade_node(node, file::op_upgrades());
    const OpDef* op = find_op(node.op);
    ASSERT_NE(op, nullptr) << row.op;
    EXPECT_EQ(op->info.version, node.op_version) << row.op;
  }
}

Attributes attributes(const auto&... pairs) {
  Attributes set;
  (set.set(pairs.first, AttrValue(pairs.second)), ...);
  return set;
}

constexpr const char* kAdamUpdates = R"(
entry f(lr: f32[], step: i64[], scale: f32[], p: f32[4], q: f32[2], u: bf16[6], l: i16[6], g: f32[4], h: f32[2]) {
  %a = adam_update(lr, step, scale, p, g, p, g) {eps=0.5, has_scale=true, weight_decays=(0.25)}
  %b = adam_update(lr, step, q, h, h, q) {beta1=0.5, decoupled=false, weight_decays=(0.0)}
  %c = adam_update(lr, step, scale, p, q, g, h, g, h, p, q) {has_scale=true, weight_decays=(0.0, 0.5)}
  %d = adam_update(lr, step, u, l, g, h, g, h, p, q) {parameters_per_half=(2), weight_decays=(0.5, 0.0)}
  return a = %a
  return b = %b:2
  return c = %c:3
  return d = %d:1
}
)";

// Writes the nodes as older versions wrote them, by hand from the attributes of their ops.
TEST(FileUpgrade, AdamUpdatesOfOlderFilesBecomeOneOp) {
  const auto model = parse_text(kAdamUpdates);
  ModelRecord record = file::lay_out(*model, {.segment_bytes = 1 << 20}).record;
  std::vector<file::NodeRecord>& nodes = record.entries[0].nodes;
  for (file::NodeRecord& node : nodes) node.op_version = 1;
  nodes[0].attributes = attributes(std::pair("eps", 0.5), std::pair("weight_decay", 0.25));
  nodes[1].attributes = attributes(std::pair("beta1", 0.5), std::pair("decoupled", false));
  for (size_t i : {0, 1})  // parameter, gradient, m, v, then the scalars
    std::rotate(nodes[i].inputs.begin(), nodes[i].inputs.end() - 4, nodes[i].inputs.end());
  nodes[2].op = "adam_update_group";
  nodes[2].attributes =
      attributes(std::pair("has_scale", true), std::pair("weight_decays", std::vector{0.0, 0.5}));
  nodes[3].op = "adam_update_halves";
  nodes[3].attributes = attributes(std::pair("parts", std::vector<int64_t>{2}),
                                   std::pair("weight_decays", std::vector{0.5, 0.0}));
  EXPECT_EQ(to_text(*load_bytes(file_of(record, ""))), to_text(*model));

  nodes[3].attributes.set("parts", AttrValue(std::string("two")));
  expect_says(refusal_of(file_of(record, "")), "attribute 'parameters_per_half' is \"two\"");
  nodes[0].inputs.pop_back();
  nodes[0].inputs.pop_back();
  expect_says(refusal_of(file_of(record, "")), "adam_update");
}

TEST(FileUpgrade, CachedAttentionOfOlderFilesRotates) {
  const auto model = parse_text(R"(
entry f(q: f32[1,1,2,4], k: f32[1,1,1,4], v: f32[1,1,1,4], a: f32[1,8,1,4], b: f32[1,8,1,4], at: i64[]) {
  %y = cached_attention(q, k, v, a, b, at) {rotates=true}
  %z = cached_attention(q, k, v, a, b, at)
  return y = %y
  return z = %z
}
)");
  ModelRecord record = file::lay_out(*model, {.segment_bytes = 1 << 20}).record;
  std::vector<file::NodeRecord>& nodes = record.entries[0].nodes;
  for (file::NodeRecord& node : nodes) node.op_version = 1, node.attributes = {};
  nodes[0].attributes = attributes(std::pair("turns", true));
  EXPECT_EQ(to_text(*load_bytes(file_of(record, ""))), to_text(*model));
}

constexpr const char* kLinears = R"(
entry f(x: f32[2,3], g: f32[3], w: f32[4,3], v: f32[4,3], b: f32[4], c: f32[4], p: f32[2,8], m: f32[3,4]) {
  %r0 = linear(x, w, v) {activation="relu", weights=2}
  %r1 = linear(x, w, v, b, c) {weights=2}
  %r2 = linear(x, w, v, b, c) {epilogue="swiglu", weights=2}
  %r3 = linear(x, w) {epilogue="with_swiglu"}
  %r4 = linear(x, g, w, v, b, c) {eps=0.5, epilogue="swiglu", prologue="rms_norm", weights=2}
  %r5 = linear(x, g, w) {prologue="rms_norm"}
  %r6 = matmul(x, p) {epilogue="bias_grad", transpose_a=true}
  %r7 = matmul(x, m, p) {epilogue="swiglu_grad", with_output=true}
  return ra = %r0:1
  return rb = %r1
  return rc = %r2
  return rd = %r3:1
  return re = %r4
  return rf = %r5
  return rg = %r6:1
  return rh = %r7:1
}
)";

TEST(FileUpgrade, ProductsOfOlderFilesBecomeFormsOfLinearAndMatmul) {
  const auto model = parse_text(kLinears);
  ModelRecord record = file::lay_out(*model, {.segment_bytes = 1 << 20}).record;
  std::vector<file::NodeRecord>& nodes = record.entries[0].nodes;
  const auto was = [&](size_t node, const char* op, const Attributes& set) {
    nodes[node].op = op;
    nodes[node].op_version = 1;
    nodes[node].attributes = set;
  };
  was(0, "merged_linear", attributes(std::pair("activation", std::string("relu"))));
  was(1, "merged_linear", attributes(std::pair("has_bias", true)));
  was(2, "linear_swiglu", {});
  was(3, "linear_with_swiglu", {});
  was(4, "norm_linear",
      attributes(std::pair("eps", 0.5), std::pair("has_bias", true), std::pair("swiglu", true)));
  was(5, "norm_linear", {});
  was(6, "linear_weight_grad", {});
  was(7, "matmul_swiglu_grad", attributes(std::pair("with_output", true)));
  EXPECT_EQ(to_text(*load_bytes(file_of(record, ""))), to_text(*model));

  nodes[1].inputs.resize(1);
  expect_says(refusal_of(file_of(record, "")), "linear");
}

TEST(FileUpgrade, TokensOfOlderFilesAreSampledFromTheSameLogits) {
  const auto model = parse_text(R"(
entry f(rng: i64[2], x: f32[2,4]) {
  %y = sample_logits(rng, x) {stream=3, temperature=0.5, top_k=2}
  return y = %y
}
)");
  ModelRecord record = file::lay_out(*model, {.segment_bytes = 1 << 20}).record;
  record.entries[0].nodes[0].op = "random_sample";
  EXPECT_EQ(to_text(*load_bytes(file_of(record, ""))), to_text(*model));
}

TEST(FileLarge, FiveGigabytesOpenAtOnceWithoutMemory) {
  const TemporaryFolder folder;
  const int64_t rows = 5, columns = int64_t{1} << 28;  // 5 GiB of f32 as five tensors, and one beyond 32 bits
  ModelRecord record;
  record.producer = "test";
  uint64_t at = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const TensorType type{DType::f32, {columns}};
    const auto bytes = static_cast<uint64_t>(type.bytes());
    record.tensors.push_back({"w" + std::to_string(i), type, 0, at, bytes});
    record.states.push_back(
        {"w" + std::to_string(i), type, StateRole::kParameter, true, static_cast<int32_t>(i)});
    at += bytes;
  }
  const TensorType last{DType::i64, {3}};
  record.tensors.push_back({"last", last, 0, at, 24});
  record.states.push_back({"last", last, StateRole::kBuffer, false, static_cast<int32_t>(rows)});
  record.segments.push_back({0, at + 24, {}});

  // The header is that of the whole file, of which only the first and the last bytes are written.
  const std::vector<std::byte> graph = file::encode_graph(record);
  file::Header header;
  header.graph_bytes = graph.size();
  header.data_offset = file::data_offset_for(graph.size(), true);
  header.file_bytes = header.data_offset + at + 24;
  const auto start = file::encode_header(header, graph);
  std::string bytes(reinterpret_cast<const char*>(start.data()), start.size());
  bytes.append(reinterpret_cast<const char*>(graph.data()), graph.size());
  write_bytes(folder / "m.genesis", bytes);
  std::filesystem::resize_file(folder / "m.genesis", header.file_bytes);

  const int64_t resident_before = resident_bytes();
  const double begin = testing::processor_seconds();
  const auto model = load_model(folder / "m.genesis");
  EXPECT_LT(testing::processor_seconds() - begin, 0.5);
  EXPECT_EQ(model->state(5).initial.as<int64_t>()[2], 0);
  EXPECT_EQ(model->state(4).initial.as<float>()[columns - 1], 0.0F);
  EXPECT_LT(resident_bytes() - resident_before, 16 << 20);
}

}  // namespace
}  // namespace genesis
