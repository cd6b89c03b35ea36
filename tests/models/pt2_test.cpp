// Tests that programs of torch.export (pt2/make_programs.py) give torch's numbers, and that damaged ones are refused in words.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "models/formats/pt2/import.h"
#include "models/formats/pt2/operators.h"
#include "models/formats/pt2/sharing.h"
#include "models/formats/pt2/size_expression.h"
#include "passes/training/add_loss.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/model_file.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/other_formats/zip.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::pt2::parse_size;
using nlohmann::json;
using testing::error_of;

fs::path programs() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models/pt2"; }

void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

// Returns the tensors whose names begin with `prefix`, without it.
NamedTensors tensors_with(const SafeTensors& file, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  return found;
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.type(), expected.type()) << what;
  if (got.type().dtype != DType::f32) {
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), static_cast<size_t>(got.bytes())), 0) << what;
    return;
  }
  for (int64_t i = 0; i < got.type().numel(); ++i) {
    const float wanted = expected.as<float>()[i];
    ASSERT_NEAR(got.as<float>()[i], wanted, 2e-5 * (1 + std::abs(wanted))) << what << " at " << i;
  }
}

class Programs : public ::testing::TestWithParam<const char*> {};

TEST_P(Programs, GiveTorchsNumbers) {
  const std::string name = GetParam();
  const SafeTensors cases = read_safetensors(programs() / (name + ".safetensors"));
  const std::shared_ptr<const Model> model = models::pt2::import_model(programs() / (name + ".pt2"));
  std::vector<std::string> outputs;
  for (const NamedValue& output : model->entry("forward").outputs()) outputs.push_back(output.name);
  Session session(model, {.device = "cpu"});  // one for both, as torch counted calls
  for (const char* k : {"0", "1"}) {
    const NamedTensors results = session.run("forward", tensors_with(cases, std::string(k) + ".in."));
    const NamedTensors expected = tensors_with(cases, std::string(k) + ".out.");
    ASSERT_EQ(outputs.size(), expected.size());
    size_t i = 0;
    for (const auto& [place, tensor] : expected) {  // in torch's order
      const std::string& output = outputs[i++];
      expect_close(results.at(output), tensor, name + " " + k + " " + output);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pt2, Programs,
                         ::testing::Values("mlp", "shapes", "convolutions", "images", "qwen2", "pictures",
                                           "reader", "recurrent", "regions", "writes", "pixels"),
                         [](const auto& info) { return info.param; });

class Training : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Training, HasTorchsLosses) {
  const auto& [name, loss] = GetParam();
  const SafeTensors cases = read_safetensors(programs() / (std::string(name) + ".safetensors"));
  const std::shared_ptr<Model> model = models::pt2::import_model(programs() / (std::string(name) + ".pt2"));
  passes::add_loss(*model, passes::parse_loss(loss));
  passes::add_training(*model, {.optimizer = optim::SGD{.lr = 0.1}});
  Session session(model, {.device = "cpu"});
  NamedTensors batch = tensors_with(cases, "0.in.");
  batch["target"] = cases.tensors.at("target");
  const Tensor losses = cases.tensors.at("losses");
  for (int64_t step = 0; step < losses.type().numel(); ++step)
    EXPECT_NEAR(session.run("train_step", batch).at("loss").item<double>(), losses.as<float>()[step], 1e-5)
        << step;
}

INSTANTIATE_TEST_SUITE_P(Pt2, Training,
                         ::testing::Values(std::pair{"convolutions", "mse=output.0"},
                                           std::pair{"qwen2", "cross_entropy"},
                                           std::pair{"pictures", "cross_entropy"}, std::pair{"reader", "ctc"},
                                           std::pair{"recurrent", "mse=output.0"},
                                           std::pair{"regions", "mse=output.0"},
                                           std::pair{"pixels", "cross_entropy"}),
                         [](const auto& info) { return info.param.first; });

TEST(Pt2, LossesThatDoNotFitAreRefused) {
  const auto refusal = [](const char* name, const char* loss) {
    const auto model = models::pt2::import_model(programs() / (std::string(name) + ".pt2"));
    return error_of([&] { passes::add_loss(*model, passes::parse_loss(loss)); });
  };
  expect_has(refusal("convolutions", "mse"), {"output.0, output.1", "name the one"});
  expect_has(refusal("convolutions", "mse=output.9"), {"output.9"});
  expect_has(refusal("shapes", "cross_entropy=output.2"), {"i64"});
  expect_has(refusal("qwen2", "hinge"), {"'hinge'", "cross_entropy, mse"});
  expect_has(refusal("pictures", "ctc"), {"[batch, time, classes]"});
}

TEST(Pt2, NamesAreTheProgramsOwn) {
  const auto model = models::pt2::import_model(programs() / "mlp.pt2");
  const Graph& forward = model->entry("forward");
  EXPECT_EQ(forward.value(forward.inputs()[0]).name, "x");
  EXPECT_EQ(forward.type(forward.inputs()[0]).to_string(), "f32[x_dim0,8]");
  std::vector<std::string> outputs, states;
  for (const NamedValue& output : forward.outputs()) outputs.push_back(output.name);
  for (const State& state : model->states()) states.push_back(state.name);
  EXPECT_EQ(outputs, (std::vector<std::string>{"y", "more.0", "more.1"}));
  std::ranges::sort(states);
  EXPECT_EQ(states, (std::vector<std::string>{"calls", "first.bias", "first.weight", "norm.bias",
                                              "norm.weight", "second.bias", "second.weight"}))
      << "again.weight and first.weight are one";
  EXPECT_TRUE(model->state(model->find_state("norm.bias")).trainable);
  EXPECT_FALSE(model->state(model->find_state("calls")).trainable);
}

TEST(Pt2, BuffersThatTheProgramChangesAreUpdated) {
  const SafeTensors cases = read_safetensors(programs() / "mlp.safetensors");
  Session session(std::shared_ptr<const Model>(models::pt2::import_model(programs() / "mlp.pt2")),
                  {.device = "cpu"});
  for (int run = 1; run <= 3; ++run) {
    EXPECT_EQ(session.run("forward", tensors_with(cases, "0.in.")).at("more.1").as<float>()[2],
              static_cast<float>(run));
    EXPECT_EQ(session.state("calls").as<float>()[0], static_cast<float>(run));
  }
}

TEST(Pt2, WeightsStayInTheirFile) {
  MappedFiles files;
  const auto model = models::pt2::import_model(programs() / "qwen2.pt2", &files);
  ASSERT_EQ(files.size(), 1u);
  const std::span<const std::byte> bytes = files[0]->bytes();
  for (const State& state : model->states()) {
    EXPECT_GE(state.initial.data(), bytes.data()) << state.name;
    EXPECT_LT(state.initial.data(), bytes.data() + bytes.size()) << state.name;
  }
}

// --- archives made here

void append(std::string& to, std::initializer_list<std::pair<uint64_t, int>> fields) {
  for (const auto& [value, bytes] : fields)
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> 8 * i & 0xff);
}

struct ZipEntry {
  std::string name, content;
  uint16_t method = 0, flags = 0;
};

std::string zip_of(const std::vector<ZipEntry>& entries) {
  std::string file, directory;
  for (const ZipEntry& e : entries) {
    const uint64_t at = file.size(), size = e.content.size();
    append(file, {{0x04034b50, 4},
                  {20, 2},
                  {e.flags, 2},
                  {e.method, 2},
                  {0, 4},
                  {0, 4},
                  {size, 4},
                  {size, 4},
                  {e.name.size(), 2},
                  {0, 2}});
    file += e.name + e.content;
    append(directory, {{0x02014b50, 4},
                       {20, 2},
                       {20, 2},
                       {e.flags, 2},
                       {e.method, 2},
                       {0, 4},
                       {0, 4},
                       {size, 4},
                       {size, 4},
                       {e.name.size(), 2},
                       {0, 2},
                       {0, 2},
                       {0, 2},
                       {0, 2},
                       {0, 4},
                       {at, 4}});
    directory += e.name;
  }
  const uint64_t at = file.size();
  file += directory;
  append(file, {{0x06054b50, 4},
                {0, 2},
                {0, 2},
                {entries.size(), 2},
                {entries.size(), 2},
                {directory.size(), 4},
                {at, 4},
                {0, 2}});
  return file;
}

class Pt2File : public ::testing::Test {
 protected:
  Pt2File() {
    const ZipArchive archive = read_zip(programs() / "mlp.pt2");
    for (const auto& [name, bytes] : archive.entries)
      entries_.push_back({name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
  }
  ~Pt2File() override { fs::remove(path_); }

  std::string& content(const std::string& ending) {
    for (ZipEntry& entry : entries_)
      if (entry.name.ends_with(ending)) return entry.content;
    throw std::runtime_error(ending);
  }
  // Changes the program and returns what importing it says.
  template <class Change>
  std::string refusal(const Change& change) {
    const std::string before = content("models/model.json");
    json program = parse_json_text(before);
    change(program);
    content("models/model.json") = program.dump();
    const std::string said = refusal_of(zip_of(entries_));
    content("models/model.json") = before;
    return said;
  }
  std::string refusal_of(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return error_of([&] { models::pt2::import_model(path_); });
  }

  std::vector<ZipEntry> entries_;
  fs::path path_ = fs::temp_directory_path() / ("genesis_pt2_" + std::to_string(::getpid()) + ".pt2");
};

json& node_of(json& program, size_t i) { return program["graph_module"]["graph"]["nodes"][i]; }

TEST_F(Pt2File, IsReadAsItIs) {
  EXPECT_EQ(refusal([](json&) {}), "");
}

TEST_F(Pt2File, UnknownOperatorsAreListedTogether) {
  expect_has(
      refusal([](json& program) {
        node_of(program, 0)["target"] = "torch.ops.aten.unheard_of.default";
        node_of(program, 1)["target"] = "torch.ops.mine.secret.default";
      }),
      {"torch.ops.aten.unheard_of.default (1x)", "torch.ops.mine.secret.default (1x)", "run_decompositions"});
}

TEST_F(Pt2File, ArgumentsThatNobodyReadsAreRefused) {
  expect_has(refusal([](json& program) {
               for (json& node : program["graph_module"]["graph"]["nodes"])
                 if (node["target"] == "torch.ops.aten.gelu.default")
                   node["inputs"].push_back({{"name", "twist"}, {"arg", {{"as_float", 0.5}}}, {"kind", 1}});
             }),
             {"'twist' (", "is not understood", "aten.gelu.default"});
}

TEST_F(Pt2File, TypesThatTheFileContradictsAreRefused) {
  expect_has(refusal([](json& program) {
               program["graph_module"]["graph"]["tensor_values"]["gelu"]["sizes"][1]["as_int"] = 15;
             }),
             {"'gelu' is f32[x_dim0,16] here"});
}

// --- calls put before the others

json tensor_arg(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }
json ints_arg(const std::vector<int64_t>& numbers) { return {{"as_ints", numbers}}; }
json int_arg(int64_t number) { return {{"as_int", number}}; }

// "torch.ops.aten.<name>" with arguments and one result of a dtype, whose sizes are -1 for that of the batch.
struct ExtraCall {
  std::string name;
  std::vector<std::pair<std::string, json>> arguments;
  std::string result;
  std::vector<int64_t> sizes;
  int64_t dtype = 7;
};

// Puts calls before those of the program, which has the input x: f32[x_dim0, 8].
void put_first(json& program, const std::vector<ExtraCall>& calls) {
  json& graph = program["graph_module"]["graph"];
  for (size_t i = 0; i < calls.size(); ++i) {
    const ExtraCall& call = calls[i];
    json meta = graph["tensor_values"]["x"], inputs = json::array();
    const json batch = meta["sizes"][0];
    meta["dtype"] = call.dtype, meta["sizes"] = meta["strides"] = json::array();
    int64_t stride = 1;
    for (size_t axis = call.sizes.size(); axis-- > 0;) {
      const int64_t size = call.sizes[axis];
      meta["sizes"].insert(meta["sizes"].begin(), size < 0 ? batch : int_arg(size));
      meta["strides"].insert(meta["strides"].begin(), int_arg(stride));
      stride *= std::max<int64_t>(size, 1);
    }
    graph["tensor_values"][call.result] = meta;
    for (const auto& [name, value] : call.arguments)
      inputs.push_back({{"name", name}, {"arg", value}, {"kind", 1}});
    graph["nodes"].insert(graph["nodes"].begin() + static_cast<int64_t>(i),
                          json{{"target", "torch.ops.aten." + call.name},
                               {"inputs", inputs},
                               {"outputs", json::array({tensor_arg(call.result)})},
                               {"metadata", json::object()},
                               {"name", call.result}});
  }
}

// The calls that read x read the tensor `name`.
void read_instead_of_x(json& program, const std::string& name) {
  for (const size_t i : {1, 3, 7}) node_of(program, i)["inputs"][0]["arg"] = tensor_arg(name);
}

const ExtraCall kOwn = {"mul.Tensor", {{"self", tensor_arg("x")}, {"other", int_arg(1)}}, "b", {-1, 8}};
ExtraCall add_one(const std::string& to, const std::string& result, const std::vector<int64_t>& sizes) {
  return {"add_.Tensor", {{"self", tensor_arg(to)}, {"other", int_arg(1)}}, result, sizes};
}

TEST_F(Pt2File, WritesThroughViewsAreSeen) {
  const ExtraCall views[] = {
      {"reshape_as.default", {{"self", tensor_arg("b")}, {"other", tensor_arg("x")}}, "v", {-1, 8}},
      {"_unsafe_view.default", {{"self", tensor_arg("b")}, {"size", ints_arg({-1, 2, 4})}}, "v", {-1, 2, 4}},
      {"unfold.default",
       {{"self", tensor_arg("b")}, {"dimension", int_arg(1)}, {"size", int_arg(4)}, {"step", int_arg(4)}},
       "v",
       {-1, 2, 4}}};
  NamedTensors batch = tensors_with(read_safetensors(programs() / "mlp.safetensors"), "0.in.");
  const Tensor x = batch.at("x");
  std::vector<float> values(x.as<float>().begin(), x.as<float>().end());
  for (float& value : values) value += 1;
  const NamedTensors more = {{"x", Tensor::copy_of(x.type(), values.data())}};
  Session plain(std::shared_ptr<const Model>(models::pt2::import_model(programs() / "mlp.pt2")),
                {.device = "cpu"});
  const Tensor expected = plain.run("forward", more).at("y");
  for (const ExtraCall& view : views) {
    const std::string said = refusal([&](json& program) {
      read_instead_of_x(program, "b");
      put_first(program, {kOwn, view, add_one("v", "w", view.sizes)});
    });
    ASSERT_EQ(said, "") << view.name;
    Session session(std::shared_ptr<const Model>(models::pt2::import_model(path_)), {.device = "cpu"});
    expect_close(session.run("forward", batch).at("y"), expected, view.name);
  }
}

TEST_F(Pt2File, WritesThatHaveNoOneValueAreRefused) {
  expect_has(refusal([&](json& program) {
               put_first(program, {kOwn,
                                   {"unfold.default",
                                    {{"self", tensor_arg("b")},
                                     {"dimension", int_arg(1)},
                                     {"size", int_arg(4)},
                                     {"step", int_arg(2)}},
                                    "v",
                                    {-1, 3, 4}},
                                   add_one("v", "w", {-1, 3, 4})});
             }),
             {"writes into 'v'", "unfold", "'b' several times"});
}

TEST_F(Pt2File, ChangesOfShapeInPlaceAreRefusedForViews) {
  const ExtraCall view = {"slice.Tensor", {{"self", tensor_arg("b")}, {"end", int_arg(1)}}, "c", {1, 8}},
                  turned = {"t_.default", {{"self", tensor_arg("b")}}, "t", {8, -1}},
                  back = {"t_.default", {{"self", tensor_arg("t")}}, "u", {-1, 8}};
  EXPECT_EQ(refusal([&](json& program) {
              read_instead_of_x(program, "u");
              put_first(program, {kOwn, turned, back});
            }),
            "");
  expect_has(refusal([&](json& program) {
               put_first(program, {kOwn, view, turned, add_one("c", "w", {1, 8})});
             }),
             {"changes the shape of 'b' in place"});
}

TEST_F(Pt2File, WritesKeepTheDtypeOfTheWritten) {
  EXPECT_EQ(
      refusal([&](json& program) {
        put_first(
            program,
            {{"to.dtype", {{"self", tensor_arg("x")}, {"dtype", {{"as_scalar_type", 6}}}}, "h", {-1, 8}, 6},
             {"add_.Tensor", {{"self", tensor_arg("h")}, {"other", tensor_arg("x")}}, "s", {-1, 8}, 6},
             {"mul.Tensor", {{"self", tensor_arg("s")}, {"other", int_arg(1)}}, "r", {-1, 8}, 6},
             {"neg.default", {{"self", tensor_arg("r")}}, "n", {-1, 8}, 6}});
      }),
      "");
}

// x as the tensor "p" of these sizes.
ExtraCall reshaped(const std::vector<int64_t>& sizes) {
  return {"view.default", {{"self", tensor_arg("x")}, {"size", ints_arg(sizes)}}, "p", sizes};
}

TEST_F(Pt2File, WindowsThatMakeNoSenseAreNamed) {
  const auto windows = [&](const std::string& name, int64_t number) {
    return refusal([&](json& program) {
      ExtraCall call = {"im2col.default", {{"self", tensor_arg("p")}}, "q", {}};
      for (const char* one : {"kernel_size", "dilation", "padding", "stride"})
        call.arguments.emplace_back(one, ints_arg(std::vector<int64_t>(2, one == name ? number : 1)));
      put_first(program, {reshaped({-1, 2, 2, 2}), call});
    });
  };
  EXPECT_EQ(windows("", 0), "");
  expect_has(windows("kernel_size", 0), {"'kernel_size' has the number 0", "1 to 1048576"});
  expect_has(windows("padding", int64_t{1} << 40), {"'padding' has the number", "0 to 1048576"});
  expect_has(windows("dilation", -1), {"'dilation' has the number -1"});
  const auto folded = [&](int64_t kernel) {
    return refusal([&](json& program) {
      ExtraCall call = {
          "col2im.default", {{"self", tensor_arg("p")}, {"output_size", ints_arg({5, 4})}}, "q", {}};
      for (const char* one : {"dilation", "stride"}) call.arguments.emplace_back(one, ints_arg({1, 1}));
      call.arguments.emplace_back("padding", ints_arg({0, 0}));
      call.arguments.emplace_back("kernel_size", ints_arg({kernel, kernel}));
      put_first(program, {reshaped({-1, 2, 4}), call});
    });
  };
  expect_has(folded(0), {"'kernel_size' has the number 0"});
  expect_has(folded(3), {"2 values a column are not made of windows of 9"});
}

TEST_F(Pt2File, BlocksOfPixelsThatMakeNoSenseAreNamed) {
  const auto shuffled = [&](int64_t factor) {
    return refusal([&](json& program) {
      put_first(program, {reshaped({-1, 4, 2, 1}),
                          {"pixel_shuffle.default",
                           {{"self", tensor_arg("p")}, {"upscale_factor", int_arg(factor)}},
                           "q",
                           {-1, 1, 4, 2}}});
    });
  };
  EXPECT_EQ(shuffled(2), "");
  expect_has(shuffled(0), {"upscale_factor is 0", "1 to 65536"});
  expect_has(shuffled(3), {"4 channels are not made of blocks of 9"});
}

TEST_F(Pt2File, EmptyPartsChangeNothing) {
  const ExtraCall empty = {"slice.Tensor", {{"self", tensor_arg("x")}, {"end", int_arg(0)}}, "e", {0, 8}};
  EXPECT_EQ(refusal([&](json& program) {
              read_instead_of_x(program, "q");
              put_first(program,
                        {empty,
                         {"slice.Tensor",
                          {{"self", tensor_arg("x")}, {"dim", int_arg(1)}, {"end", int_arg(0)}},
                          "f",
                          {-1, 0}},
                         {"slice_scatter.default",
                          {{"self", tensor_arg("x")},
                           {"src", tensor_arg("f")},
                           {"dim", int_arg(1)},
                           {"start", int_arg(3)},
                           {"end", int_arg(1)}},
                          "b",
                          {-1, 8}},
                         {"gt.Scalar", {{"self", tensor_arg("x")}, {"other", int_arg(9)}}, "m", {-1, 8}, 12},
                         {"masked_scatter.default",
                          {{"self", tensor_arg("b")}, {"mask", tensor_arg("m")}, {"source", tensor_arg("e")}},
                          "q",
                          {-1, 8}}});
            }),
            "");
}

TEST_F(Pt2File, CellsNeedTheirStates) {
  expect_has(refusal([&](json& program) {
               const json states = {{"as_tensors", json::array({{{"name", "x"}}})}};
               put_first(program, {{"lstm_cell.default",
                                    {{"input", tensor_arg("x")},
                                     {"hx", states},
                                     {"w_ih", tensor_arg("p_first_weight")},
                                     {"w_hh", tensor_arg("p_first_weight")}},
                                    "q",
                                    {-1, 8}}});
             }),
             {"lstm_cell has 2 states, got 1"});
}

TEST(Pt2, ItIsKnownOfEachOperatorOfShapesWhoseMemoryItsResultsHave) {
  for (const models::pt2::Operator& one : models::pt2::shape_operators())
    EXPECT_NE(models::pt2::makes_views(one.name), models::pt2::makes_copies(one.name))
        << one.name << ": put it in one of the tables of sharing.cpp";
}

TEST_F(Pt2File, OtherVersionsAreNamed) {
  expect_has(refusal([](json& program) { program["schema_version"]["major"] = 9; }),
             {"its schema is 9.", "expected 8", "PyTorch 2.15"});
}

TEST_F(Pt2File, MissingPartsAreNamed) {
  expect_has(refusal([](json& program) { program["graph_module"].erase("graph"); }), {"damaged", "graph"});
  expect_has(
      refusal([](json& program) { node_of(program, 1)["inputs"][0]["arg"]["as_tensor"]["name"] = "nobody"; }),
      {"'nobody', which nothing before it makes"});
  content("model_weights_config.json") = "{}";
  expect_has(refusal([](json&) {}), {"damaged", "config"});
}

TEST_F(Pt2File, WeightsThatDoNotFitAreNamed) {
  content("data/weights/weight_0").resize(8);
  expect_has(refusal([](json&) {}), {"has only 8 bytes", "in the tensor"});
}

TEST_F(Pt2File, ArchivesThatAreDamagedAreRefused) {
  const std::string whole = zip_of(entries_);
  expect_has(refusal_of(whole.substr(0, whole.size() - 30)), {"no directory at its end"});
  expect_has(refusal_of(""), {"no directory"});
  std::string far = whole;
  far.replace(far.size() - 6, 4, "\xff\xff\xff\x7f");
  expect_has(refusal_of(far), {"points to byte"});
  std::vector<ZipEntry> changed = entries_;
  changed[1].method = 8;
  expect_has(refusal_of(zip_of(changed)), {"it is compressed", changed[1].name});
  changed = entries_, changed[2].flags = 1;
  expect_has(refusal_of(zip_of(changed)), {"it is encrypted", changed[2].name});
  changed = entries_, changed[1].name = changed[0].name;
  expect_has(refusal_of(zip_of(changed)), {"twice"});
}

// Any byte of the file changed: an Error or a model, never a crash.
TEST_F(Pt2File, AnyByteMayBeWrong) {
  const std::string whole = zip_of(entries_);
  for (size_t at = 0; at < whole.size(); at += 41) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(wrong[at] ^ (at % 2 == 0 ? 0x10 : 0xff));
    refusal_of(wrong);
  }
}

TEST(Pt2, SizesAreExpressions) {
  const auto text = [](const char* expression) {
    const auto dim = parse_size(expression, {{"s77", "batch"}});
    return dim ? dim->to_string() : "none";
  };
  EXPECT_EQ(text("Symbol('s77', positive=True, integer=True)"), "batch");
  EXPECT_EQ(text("Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(-1))"),
            (Dim(2) * Dim::symbol("batch") - 1).to_string());
  EXPECT_EQ(text("Pow(Symbol('s77', integer=True), Integer(2))"),
            (Dim::symbol("batch") * Dim::symbol("batch")).to_string());
  EXPECT_EQ(text("FloorDiv(Symbol('s77', integer=True), Integer(2))"), "floor_div(batch,2)");
  EXPECT_EQ(text("FloorDiv(Integer(2), Symbol('s77', integer=True))"), "none");
  EXPECT_EQ(text("Max(Integer(8), Symbol('s77', integer=True))"), "max(8,batch)");
  EXPECT_EQ(text("Mod(Symbol('s77', integer=True), Integer(4))"),
            (Dim::symbol("batch") - Dim::floor_div(Dim::symbol("batch"), 4) * 4).to_string());
  // Sizes of what is resized by a factor.
  const auto resized = [](const std::string& factor, const std::string& function) {
    const auto size = parse_size(
        function + "(Mul(Float('" + factor + "', precision=53), ToFloat(Symbol('s1', integer=True))))",
        {{"s1", "h"}});
    return size ? size->to_string() : "";
  };
  EXPECT_EQ(resized("2.0", "TruncToInt"), "2*h");
  EXPECT_EQ(resized("1.5", "TruncToInt"), "floor_div(h,2)+h");
  EXPECT_EQ(resized("0.5", "CeilToInt"), "floor_div(h+1,2)");
  EXPECT_EQ(resized("1.1", "TruncToInt"), "");
  EXPECT_EQ(resized("1.5", "ToFloat"), "");
  EXPECT_NE(error_of([] { parse_size("Float('2.0'", {}); }), "");
  EXPECT_NE(error_of([] { parse_size("Float(2.0)", {}); }), "");
  EXPECT_NE(error_of([] { parse_size("Add(Integer(2)", {}); }), "");
  EXPECT_NE(error_of([] { parse_size("Symbol('s", {}); }), "");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "Add(";
  EXPECT_NE(error_of([&] { parse_size(deep, {}); }), "");
}

}  // namespace
}  // namespace genesis
