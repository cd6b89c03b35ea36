// Tests the C interface: values pass in and out without a copy, errors say where, mutated arguments never crash, its functions are
// those that the library exports, and the programs in C and Python of examples/ run.
#include <genesis/genesis_c.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "schema/file/writer.h"
#include "tests/models/tiny_chat_model.h"
#include "tests/tools/process.h"

namespace genesis {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// Saves a small language model with a tokenizer and a chat template.
std::string language_model(const TemporaryFolder& folder) {
  save_model(*tiny_chat_model(), folder / "lm.genesis");
  return (folder / "lm.genesis").string();
}

// Returns the code of an error, frees it, and appends its text to `text`.
int32_t code_of(gn_error* error, std::string* text = nullptr) {
  const int32_t code = gn_error_code(error);
  if (text) *text += gn_error_text(error);
  gn_error_free(error);
  return code;
}

void expect_ok(gn_error* error) { EXPECT_STREQ(gn_error_text(error), ""), gn_error_free(error); }

// A model with y = x * w, a session of it, and an input.
class Doubling : public ::testing::Test {
 protected:
  Doubling() {
    const int64_t one = 1, sizes[] = {2, 1};
    expect_ok(gn_tensor_copy(GN_F32, 1, &one, &two_, sizeof two_, &weight_));
    expect_ok(gn_tensor_view(GN_F32, 2, sizes, x_, &input_));
    expect_ok(gn_model_create(&model_));
    expect_ok(gn_graph_create(model_, "forward", 0, &graph_));
    int32_t values[3];
    size_t made = 0;
    expect_ok(gn_graph_input(graph_, "x", GN_F32, "[batch,1]", &values[0]));
    expect_ok(gn_graph_state(graph_, "w", weight_, 1, &values[1]));
    expect_ok(gn_graph_op(graph_, "mul", nullptr, values, 2, &values[2], 1, &made));
    EXPECT_EQ(made, 1u);
    expect_ok(gn_graph_output(graph_, "y", values[2]));
    expect_ok(gn_session_open(model_, nullptr, &session_));
  }
  ~Doubling() override {
    gn_session_free(session_);
    gn_graph_free(graph_);
    gn_model_free(model_);
    gn_tensor_free(input_);
    gn_tensor_free(weight_);
  }
  gn_error* run(const char* name, const gn_tensor* tensor, gn_tensors** out) {
    return gn_session_run(session_, "forward", &name, &tensor, 1, out);
  }

  const float two_ = 2;
  float x_[2] = {1, 20.5F};
  gn_tensor *weight_ = nullptr, *input_ = nullptr;
  gn_model* model_ = nullptr;
  gn_graph* graph_ = nullptr;
  gn_session* session_ = nullptr;
};

TEST_F(Doubling, SeesWhatIsWrittenInPlace) {
  for (const float value : {1.0F, 5.0F}) {
    x_[0] = value;
    gn_tensors* outputs = nullptr;
    expect_ok(run("x", input_, &outputs));
    const gn_tensor* y = gn_tensors_find(outputs, "y");
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(gn_tensor_sizes(y)[0], 2);
    EXPECT_EQ(static_cast<const float*>(gn_tensor_data(y))[0], 2 * value);
    EXPECT_EQ(static_cast<const float*>(gn_tensor_data(y))[1], 41);
    gn_tensors_free(outputs);
  }
}

TEST_F(Doubling, PassesTensorsByDlpackWithoutACopy) {
  gn_dl_managed* given = nullptr;
  expect_ok(gn_tensor_to_dlpack(input_, &given));
  EXPECT_EQ(given->dl_tensor.data, x_);
  EXPECT_EQ(given->dl_tensor.type_code, 2);
  EXPECT_EQ(given->flags, 1u) << "the bytes are the caller's";
  gn_tensor* back = nullptr;
  expect_ok(gn_tensor_from_dlpack(given, &back));
  EXPECT_EQ(gn_tensor_data(back), x_);
  gn_tensor_free(back);
  // A transposed tensor is copied in the order of its elements.
  float rows[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {3, 2}, strides[] = {1, 3};
  int deleted = 0;
  gn_dl_legacy columns{{rows, 1, 0, 2, 2, 32, 1, shape, strides, 0}, &deleted, [](gn_dl_legacy* self) {
                         ++*static_cast<int*>(self->manager_ctx);
                       }};
  expect_ok(gn_tensor_from_dlpack_legacy(&columns, &back));
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(static_cast<const float*>(gn_tensor_data(back))[1], 3);
  gn_tensor_free(back);
  std::string text;
  // Memory of a GPU stays there; here it is refused, because no machine has that many GPUs.
  for (const auto& [device, said] : {std::pair{10, "expected host memory or a GPU's"}, {2, "is not dense"}}) {
    columns.dl_tensor.device_type = device;
    EXPECT_EQ(code_of(gn_tensor_from_dlpack_legacy(&columns, &back), &text), GN_ERROR);
    EXPECT_NE(text.find(said), std::string::npos) << text;
  }
  columns.dl_tensor.strides = nullptr;
  columns.dl_tensor.device_id = 99;
  EXPECT_EQ(code_of(gn_tensor_from_dlpack_legacy(&columns, &back), &text), GN_ERROR);
  EXPECT_NE(text.find("from the memory of GPU 99"), std::string::npos) << text;
  EXPECT_EQ(deleted, 4);
  columns.dl_tensor.device_type = 13;
  expect_ok(gn_tensor_from_dlpack_legacy(&columns, &back));
  EXPECT_EQ(gn_tensor_data(back), rows);
  gn_tensor_free(back);
  EXPECT_EQ(deleted, 5);
}

// On a CPU there is no other memory, so that the outputs are those of a usual run.
TEST_F(Doubling, RunsOnItsDevice) {
  const char* const name = "x";
  gn_tensors* outputs = nullptr;
  expect_ok(gn_session_run_on_device(session_, "forward", &name, &input_, 1, &outputs));
  const gn_tensor* y = gn_tensors_find(outputs, "y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(gn_tensor_gpu(y), -1);
  EXPECT_EQ(gn_tensor_gpu(nullptr), -1);
  EXPECT_EQ(static_cast<const float*>(gn_tensor_data(y))[1], 41);
  gn_tensors_free(outputs);
  outputs = reinterpret_cast<gn_tensors*>(this);
  EXPECT_EQ(code_of(gn_session_run_on_device(nullptr, "forward", &name, &input_, 1, &outputs)),
            GN_BAD_ARGUMENT);
  EXPECT_EQ(outputs, nullptr) << "a failure sets the output to null";
}

TEST_F(Doubling, ErrorsSayWhere) {
  gn_tensors* outputs = nullptr;
  gn_error* error = run("z", input_, &outputs);
  EXPECT_EQ(gn_error_code(error), GN_ERROR);
  EXPECT_STREQ(gn_error_entry(error), "forward");
  EXPECT_NE(std::string(gn_error_text(error)).find("'z'"), std::string::npos) << gn_error_text(error);
  EXPECT_EQ(outputs, nullptr);
  gn_error_free(error);
  error = run("x", weight_, &outputs);
  EXPECT_STREQ(gn_error_input(error), "x") << gn_error_text(error);
  gn_error_free(error);
  gn_session_options options{};
  gn_session* session = nullptr;
  for (const size_t size : {size_t{0}, sizeof options - 1, sizeof options + 1, SIZE_MAX}) {
    options.struct_size = size;
    EXPECT_EQ(code_of(gn_session_open(model_, &options, &session)), GN_BAD_ARGUMENT);
  }
  int32_t value = 0, wrong = 7;
  size_t made = 0;
  std::string text;
  EXPECT_EQ(code_of(gn_graph_op(graph_, "cube", nullptr, &value, 1, &value, 1, &made), &text), GN_ERROR);
  EXPECT_EQ(code_of(gn_graph_op(graph_, "neg", nullptr, &wrong, 1, &value, 1, &made), &text),
            GN_BAD_ARGUMENT);
  EXPECT_EQ(code_of(gn_graph_op(graph_, "softmax", R"({"axis": "x"})", &value, 1, &value, 1, &made), &text),
            GN_ERROR);
  for (const char* part :
       {"no op 'cube'", "no value 7", "attribute 'axis' is \"x\", expected a whole number"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Returns the tokens of a tensor, and frees it.
std::vector<int64_t> tokens_of(gn_tensor* tensor) {
  const auto* data = static_cast<const int64_t*>(gn_tensor_data(tensor));
  std::vector<int64_t> tokens(data, data + gn_tensor_bytes(tensor) / sizeof(int64_t));
  gn_tensor_free(tensor);
  return tokens;
}

TEST(CInterface, AnEngineWritesManyTexts) {
  const TemporaryFolder folder;
  const char* const settings = R"({"max_tokens": 5, "temperature": 0, "ignore_eos": true})";
  gn_lm* lm = nullptr;
  gn_engine* engine = nullptr;
  gn_tensor *prompt = nullptr, *tokens = nullptr;
  uint64_t ids[3] = {};
  expect_ok(gn_lm_open(language_model(folder).c_str(), nullptr, &lm));
  expect_ok(gn_engine_open(lm, nullptr, &engine));
  expect_ok(gn_lm_encode(lm, "In the beginning", &prompt));
  for (uint64_t& id : ids) expect_ok(gn_engine_submit(engine, prompt, settings, &id));
  expect_ok(gn_engine_cancel(engine, ids[2]));
  int32_t works = 1, ended = 0;
  while (works) expect_ok(gn_engine_step(engine, &works));
  std::vector<std::vector<int64_t>> texts;
  for (const uint64_t id : ids) {
    expect_ok(gn_engine_poll(engine, id, &tokens, &ended));
    EXPECT_EQ(ended, 1);
    texts.push_back(tokens_of(tokens));
  }
  EXPECT_EQ(texts[0].size(), 5u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_TRUE(texts[2].empty());
  gn_reply* reply = nullptr;
  std::string text;
  EXPECT_EQ(code_of(gn_lm_generate(lm, "In", settings, nullptr, nullptr, &reply), &text), GN_ERROR);
  EXPECT_EQ(code_of(gn_engine_poll(engine, ids[0], &tokens, &ended), &text), GN_ERROR);
  EXPECT_EQ(code_of(gn_engine_submit(engine, prompt, "{\"stop\": \"a\"}", ids), &text), GN_ERROR);
  EXPECT_EQ(code_of(gn_engine_submit(engine, nullptr, settings, ids), &text), GN_BAD_ARGUMENT);
  EXPECT_NE(text.find("an engine uses the language model"), std::string::npos) << text;
  gn_tensor_free(prompt);
  gn_lm_free(lm);  // the engine keeps what it needs
  gn_engine_free(engine);
}

TEST(CInterface, ATokenizerGivesTheTokensOfTheModel) {
  const TemporaryFolder folder;
  const std::string path = language_model(folder);
  gn_lm* lm = nullptr;
  gn_tokenizer* tokenizer = nullptr;
  gn_tensor *own = nullptr, *of_model = nullptr;
  char* text = nullptr;
  expect_ok(gn_lm_open(path.c_str(), nullptr, &lm));
  expect_ok(gn_tokenizer_open(path.c_str(), &tokenizer));
  expect_ok(gn_tokenizer_encode(tokenizer, "In the beginning", 1, &own));
  expect_ok(gn_lm_encode(lm, "In the beginning", &of_model));
  expect_ok(gn_tokenizer_decode(tokenizer, own, &text));
  EXPECT_STREQ(text, "In the beginning");
  EXPECT_EQ(tokens_of(own), tokens_of(of_model));
  EXPECT_EQ(gn_tokenizer_size(tokenizer), 909);
  EXPECT_EQ(gn_tokenizer_size(nullptr), -1);
  std::string said;
  EXPECT_EQ(code_of(gn_tokenizer_encode(tokenizer, "a", 2, &own), &said), GN_BAD_ARGUMENT);
  EXPECT_EQ(code_of(gn_tokenizer_encode(tokenizer, nullptr, 0, &own), &said), GN_BAD_ARGUMENT);
  EXPECT_EQ(code_of(gn_tokenizer_decode(nullptr, own, &text), &said), GN_BAD_ARGUMENT);
  gn_tokenizer* other = tokenizer;
  EXPECT_EQ(code_of(gn_tokenizer_open("/nowhere", &other), &said), GN_ERROR);
  EXPECT_EQ(other, nullptr) << "a failure sets the output to null";
  EXPECT_NE(said.find("special is 2, expected 0 or 1"), std::string::npos) << said;
  gn_text_free(text);
  gn_tokenizer_free(tokenizer);
  gn_lm_free(lm);
}

// Draws arguments, some of which are wrong.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  size_t below(size_t n) { return random_() % n; }
  template <class T>
  T* pointer(T* right) {
    return below(4) == 0 ? nullptr : right;
  }
  size_t size(size_t right) {
    const size_t sizes[] = {right, right, 0, right - 1, right + 1, SIZE_MAX, 8};
    return sizes[below(7)];
  }
  size_t up_to(size_t right) { return below(2) ? right : below(right + 1); }
  int32_t number() { return static_cast<int32_t>(below(14)) - 2; }
  const char* text(const char* right) {
    const char* const texts[] = {right, right, right, nullptr, "", "[", "{\"axis\": 1e400}", "\xff'"};
    return texts[below(8)];
  }

 private:
  std::mt19937 random_;
};

struct Objects {
  gn_model* model;
  gn_graph* graph;
  gn_session* session;
  gn_lm* lm;
  gn_tensor* tensor;
  gn_tensors* tensors;
};

gn_error* freed(gn_error* error, gn_tensor* tensor) { return gn_tensor_free(tensor), error; }
gn_error* freed(gn_error* error, gn_tensors* tensors) { return gn_tensors_free(tensors), error; }
gn_error* freed(gn_error* error, gn_session* session) { return gn_session_free(session), error; }
gn_error* freed(gn_error* error, gn_model* model) { return gn_model_free(model), error; }
gn_error* freed(gn_error* error, gn_lm* lm) { return gn_lm_free(lm), error; }
gn_error* freed(gn_error* error, gn_reply* reply) { return gn_reply_free(reply), error; }
gn_error* freed(gn_error* error, char* text) { return gn_text_free(text), error; }

// Calls with an output, which is freed.
template <class T, class Call>
gn_error* with_out(Draw& d, const Call& call) {
  T* out = nullptr;
  gn_error* error = call(d.pointer(&out));
  EXPECT_TRUE(!error || !out);
  return freed(error, out);
}

gn_error* mutated_tensor(Draw& d, const Objects& o, size_t which) {
  static const std::vector<float> bytes(256);
  int64_t sizes[10];
  for (int64_t& size : sizes) size = d.below(6) == 0 ? INT64_MAX : static_cast<int64_t>(d.below(4)) - 1;
  return with_out<gn_tensor>(d, [&](gn_tensor** out) {
    if (which == 0)
      return gn_tensor_view(d.number(), d.number(), d.pointer(sizes), d.pointer(bytes.data()), out);
    if (which == 1)
      return gn_tensor_copy(d.number(), d.number(), d.pointer(sizes), d.pointer(bytes.data()), d.size(4),
                            out);
    if (which == 2) return gn_tensors_take(d.pointer(o.tensors), d.size(0), out);
    if (which == 3) return gn_session_state(d.pointer(o.session), d.text("w"), out);
    return gn_lm_encode(d.pointer(o.lm), d.text("In the"), out);
  });
}

gn_error* mutated_graph(Draw& d, const Objects& o, size_t which) {
  gn_graph* graph = d.pointer(o.graph);
  int32_t value = 0, inputs[4] = {d.number(), d.number(), 0, 0}, results[2];
  size_t made = 0;
  if (which == 0)
    return gn_graph_input(graph, d.text("x"), d.number(), d.text("[batch,1]"), d.pointer(&value));
  if (which == 1) return gn_graph_constant(graph, d.text("c"), d.pointer(o.tensor), d.pointer(&value));
  if (which == 2)
    return gn_graph_state(graph, d.text("w"), d.pointer(o.tensor), d.number(), d.pointer(&value));
  if (which == 3)
    return gn_graph_op(graph, d.text(d.below(2) ? "softmax" : "mul"), d.text("{\"axis\": 0}"),
                       d.pointer(inputs), d.up_to(4), d.pointer(results), d.up_to(2), d.pointer(&made));
  if (which == 4) return gn_graph_update(graph, d.text("w"), d.number());
  return gn_graph_output(graph, d.text("y"), d.number());
}

gn_error* mutated_model(Draw& d, const Objects& o, size_t which) {
  gn_value_info info{};
  info.struct_size = d.size(sizeof info);
  size_t count = 0;
  const gn_model* model = d.pointer(o.model);
  if (which == 0) return gn_model_input(model, d.text("forward"), d.size(0), d.pointer(&info));
  if (which == 1) return gn_model_output(model, d.text("forward"), d.size(0), d.pointer(&info));
  if (which == 2) return gn_model_input_count(model, d.text("forward"), d.pointer(&count));
  if (which == 3) return gn_model_output_count(model, d.text("forward"), d.pointer(&count));
  if (which == 4) return with_out<char>(d, [&](char** out) { return gn_model_describe(model, out); });
  if (which == 5) return with_out<char>(d, [&](char** out) { return gn_ops_describe(out); });
  if (which == 6) return gn_model_save(model, d.text("/nowhere/m.genesis"));
  return with_out<gn_model>(d,
                            [&](gn_model** out) { return gn_model_open(d.text("/nowhere/m.genesis"), out); });
}

gn_error* mutated_session(Draw& d, const Objects& o, size_t which) {
  const char* names[] = {d.text("x"), d.text("x")};
  const gn_tensor* tensors[] = {d.pointer(o.tensor), d.pointer(o.tensor)};
  gn_session* session = d.pointer(o.session);
  gn_session_options options{};
  options.struct_size = d.size(sizeof options);
  options.device = d.text("cpu");
  options.threads = d.number();
  if (which == 0)
    return with_out<gn_session>(
        d, [&](gn_session** out) { return gn_session_open(d.pointer(o.model), d.pointer(&options), out); });
  if (which == 1)
    return with_out<gn_tensors>(d, [&](gn_tensors** out) {
      return gn_session_run(session, d.text("forward"), d.pointer(names), d.pointer(tensors), d.up_to(2),
                            out);
    });
  if (which == 2)
    return gn_session_start(session, d.text("forward"), d.pointer(names), d.pointer(tensors), d.up_to(2));
  if (which == 3)
    return with_out<gn_tensors>(d, [&](gn_tensors** out) { return gn_session_wait(session, out); });
  if (which == 4) return gn_session_set_state(session, d.text("w"), d.pointer(o.tensor));
  if (which == 5) return gn_session_save(session, d.text("/nowhere/m.genesis"));
  if (which == 6) return gn_session_load(session, d.text("/nowhere/m.genesis"));
  if (which == 7) return gn_session_set_seed(session, d.size(1));
  if (which == 8)
    return with_out<gn_tensors>(d, [&](gn_tensors** out) {
      return gn_session_run_on_device(session, d.text("forward"), d.pointer(names), d.pointer(tensors),
                                      d.up_to(2), out);
    });
  return gn_session_reset_caches(session);
}

gn_error* mutated_text(Draw& d, const Objects& o, size_t which) {
  gn_lm* lm = d.pointer(o.lm);
  const char* messages = d.text(R"([{"role": "user", "content": "Hi"}])");
  const char* settings = d.text(R"({"max_tokens": 2, "stop": "x"})");
  gn_lm_options options{};
  options.struct_size = d.size(sizeof options);
  options.context = d.number();
  gn_train_options train{};
  train.struct_size = d.size(sizeof train);
  train.model = d.text("/nowhere/m.genesis");
  train.data_count = d.up_to(1);
  if (which == 0)
    return with_out<gn_reply>(d, [&](gn_reply** out) {
      return gn_lm_generate(lm, d.text("In the"), settings, nullptr, nullptr, out);
    });
  if (which == 1)
    return with_out<gn_reply>(
        d, [&](gn_reply** out) { return gn_lm_chat(lm, messages, settings, nullptr, nullptr, out); });
  if (which == 2) return with_out<char>(d, [&](char** out) { return gn_lm_render(lm, messages, out); });
  if (which == 3)
    return with_out<char>(d, [&](char** out) { return gn_lm_decode(lm, d.pointer(o.tensor), out); });
  if (which == 4) return gn_train(d.pointer(&train), nullptr);
  if (which == 5) return gn_set_log(nullptr, nullptr, 40 + d.number());
  return with_out<gn_lm>(
      d, [&](gn_lm** out) { return gn_lm_open(d.text("/nowhere/m.genesis"), d.pointer(&options), out); });
}

// Makes a folder the current one while it exists: a mutated path may be a name that can be written.
class CurrentFolder {
 public:
  explicit CurrentFolder(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~CurrentFolder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

TEST_F(Doubling, MutatedArgumentsGiveErrors) {
  const TemporaryFolder folder;
  const CurrentFolder here(folder / "");
  Objects o{model_, nullptr, session_, nullptr, input_, nullptr};
  expect_ok(gn_lm_open(language_model(folder).c_str(), nullptr, &o.lm));
  gn_model* other = nullptr;
  expect_ok(gn_model_create(&other));
  expect_ok(gn_graph_create(other, "other", 0, &o.graph));
  expect_ok(run("x", input_, &o.tensors));
  using Mutated = gn_error* (*)(Draw&, const Objects&, size_t);
  const std::pair<Mutated, size_t> kinds[] = {
      {mutated_tensor, 5}, {mutated_graph, 6}, {mutated_model, 8}, {mutated_session, 10}, {mutated_text, 7}};
  int errors = 0, successes = 0;
  for (const auto& [call, count] : kinds)
    for (size_t which = 0; which < count; ++which)
      for (unsigned seed = 0; seed < 60; ++seed) {
        Draw draw(seed);
        const int32_t code = code_of(call(draw, o, which));
        EXPECT_LE(code, GN_BAD_ARGUMENT);
        ++(code == GN_OK ? successes : errors);
      }
  EXPECT_GT(errors, 600);
  EXPECT_GT(successes, 100);
  gn_tensors_free(o.tensors);
  gn_graph_free(o.graph);
  gn_model_free(other);
  gn_lm_free(o.lm);
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Returns the names in a text that an expression finds.
std::set<std::string> names_in(const std::string& text, const std::string& expression) {
  const std::regex name(expression);
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

// A function that the header declares is exported with a version, and no version names another.
TEST(CInterface, ExportsWhatTheHeaderDeclares) {
  const fs::path root = GENESIS_SOURCE_ROOT;
  const std::string header =
      std::regex_replace(text_of(root / "include/genesis/genesis_c.h"), std::regex("//[^\n]*"), "");
  std::set<std::string> declared = names_in(header, "[ *](gn_[a-z_]+)\\(");
  for (const char* callback : {"gn_on_log", "gn_on_text", "gn_on_step"}) declared.erase(callback);
  EXPECT_GT(declared.size(), 70u);
  EXPECT_EQ(names_in(text_of(root / "packaging/exports.map"), " (gn_[a-z_]+);"), declared);
}

Process in_shell(const std::string& command) { return run_process({"sh", "-c", command}); }

// The library exports types and static variables of other libraries, which a process has once, but none of their functions.
TEST(CInterface, NoFunctionOfAnotherLibraryIsExported) {
  if (in_shell("command -v nm").code != 0) GTEST_SKIP() << "nm is not there: apt-get install binutils";
  const Process exported =
      in_shell("nm -D --defined-only " GENESIS_BUILD_ROOT "/libgenesis.so." GENESIS_VERSION
               " | awk '{ print $3 }' | grep -vE '^(gn_|GENESIS_C_|_ZT|_ZZ|_ZGVZ)|7genesis'");
  EXPECT_EQ(exported.out, "");
}

// packaging/abi.txt lists what the header had: nothing of it may change, and only structs that begin with their size may grow.
TEST(CInterface, NothingOfTheHeaderChanges) {
  const TemporaryFolder folder;
  const fs::path root = GENESIS_SOURCE_ROOT;
  const std::string check = (root / "packaging/abi.py").string() + " check ";
  const Process same = in_shell(check);
  EXPECT_EQ(same.code, 0) << same.err;
  const std::string header = text_of(root / "include/genesis/genesis_c.h");
  const std::tuple<const char*, const char*, const char*> changes[] = {
      {"gn_version\\(void\\)", "gn_versions(void)", "gn_version is gone"},
      {"GN_I64 = 8", "GN_I64 = 11", "GN_I64 was"},
      {"int64_t context;", "int32_t context;", "gn_lm_options was"},
      {"uint16_t type_lanes;", "uint16_t type_lanes, more;", "gn_dl_tensor was"},
      {"int32_t gn_tensor_rank\\(const ", "int32_t gn_tensor_rank(", "gn_tensor_rank was"},
      {"const char\\* draft; ", "const char* draft; int32_t more; ", "abi.txt lacks what is new"}};
  for (const auto& [before, after, said] : changes) {
    std::ofstream(folder / "h.h") << std::regex_replace(header, std::regex(before), after);
    const Process changed = in_shell(check + (folder / "h.h").string());
    EXPECT_EQ(changed.code, 1) << before;
    EXPECT_NE(changed.err.find(said), std::string::npos) << changed.err;
  }
}

// The program of the last tag runs with this library, and abidiff finds what changed on purpose.
TEST(CInterface, ProgramsOfEarlierVersionsRun) {
  const TemporaryFolder folder;
  const fs::path root = GENESIS_SOURCE_ROOT, build = GENESIS_BUILD_ROOT;
  const std::string abi = (root / "packaging/abi.py").string();
  const Process tag = in_shell(abi + " against " + build.string());
  EXPECT_EQ(tag.code, 0) << tag.err;
  const std::string header = text_of(root / "include/genesis/genesis_c.h");
  const std::tuple<const char*, const char*, const char*> changes[] = {
      {"x^", "", ""},
      {"int64_t context;", "int32_t context;", "type size changed from 32 to 64"},
      {"void gn_text_free\\(char\\* text\\);", "$& void gn_text_print(char* text);", "gn_text_print"}};
  for (const auto& [now, before, said] : changes) {
    for (const char* file :
         {"packaging/exports.map", "examples/c_program.c", "include/genesis/genesis_c.h"}) {
      fs::create_directories((folder / file).parent_path());
      fs::copy_file(root / file, folder / file, fs::copy_options::overwrite_existing);
    }
    std::ofstream(folder / "include/genesis/genesis_c.h")
        << std::regex_replace(header, std::regex(now), before);
    const Process compared = in_shell(abi + " compare " + (folder / "").string() + " " + build.string());
    EXPECT_EQ(compared.code, *said ? 1 : 0) << compared.err;
    EXPECT_NE(compared.err.find(said), std::string::npos) << compared.err;
  }
}

TEST(CInterface, TheProgramInCRuns) {
  const TemporaryFolder folder;
  const std::string program = GENESIS_BUILD_ROOT "/examples/c_program ",
                    model = (folder / "m.genesis").string();
  const Process written = in_shell(program + "write " + model);
  EXPECT_EQ(written.out, "w = 3.000\n") << written.err;
  const Process refused = in_shell(program + "run " + model);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("entry point 'forward'"), std::string::npos) << refused.err;
  const Process answer = in_shell(program + "chat " + language_model(folder) + " Hello");
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(std::regex_search(answer.out, std::regex("\n\\[[0-9]+ tokens, [a-z_]+\\]\n$"))) << answer.out;
}

// The page of plugins shows the whole example, from its first include on.
TEST(CInterface, ThePageOfPluginsShowsTheExample) {
  const fs::path root = GENESIS_SOURCE_ROOT;
  const std::string code = text_of(root / "examples/plugin/cube.cpp");
  EXPECT_NE(text_of(root / "docs/plugins.md").find(code.substr(code.find("#include"))), std::string::npos);
  EXPECT_LE(std::ranges::count(code, '\n'), 40) << "the example is short";
}

// The kernel of the example agrees with its formula, which is what its gradient comes from.
TEST(CInterface, TheExampleOfPluginsPassesItsCheck) {
  const Process check =
      in_shell(GENESIS_BUILD_ROOT "/tools/genesis-run --plugin " GENESIS_BUILD_ROOT
                                  "/examples/libcube.so check-op cube --set scale=0.5 --json");
  EXPECT_EQ(check.code, 0) << check.out << check.err;
  for (const char* part : {"\"has_gradient\":true", "\"has_formula\":true", "\"wrong\":[]"})
    EXPECT_NE(check.out.find(part), std::string::npos) << part << " in " << check.out;
}

// Runs a program in Python with the package of this tree and the library of this build.
Process in_python(const std::string& words) {
  return in_shell("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" GENESIS_SOURCE_ROOT
                  "/bindings/python GENESIS_LIBRARY=" GENESIS_BUILD_ROOT "/libgenesis.so." GENESIS_VERSION
                  " python3 " +
                  words);
}

// An op that has no counterpart in ONNX is exported as its formula, with sizes that are still open.
TEST(CInterface, AnOpOfAPluginIsExportedAsItsFormula) {
  const TemporaryFolder folder;
  const std::string plugin = GENESIS_BUILD_ROOT "/examples/libcube.so", model = (folder / "cube").string();
  const Process made = in_python(
      "-c \"import genesis; genesis.load_plugin('" + plugin +
      "'); genesis.build(forward=lambda g: {'y': g.input('x', 'f32', ['n']).cube(scale=2)}).save('" + model +
      ".genesis')\"");
  ASSERT_EQ(made.code, 0) << made.err;
  const Process exported = in_shell(GENESIS_BUILD_ROOT "/tools/genesis-run --plugin " + plugin + " export " +
                                    model + ".genesis -o " + model + ".onnx");
  ASSERT_EQ(exported.code, 0) << exported.err;
  const Process read =
      in_shell(GENESIS_BUILD_ROOT "/tools/genesis-build " + model + ".onnx -o " + model + ".back.genesis");
  ASSERT_EQ(read.code, 0) << read.err;
  const Process run =
      in_python("-c \"import array, genesis; print(genesis.load('" + model +
                ".back.genesis').session().run(x=array.array('f', [3, -1]))['y'].tolist())\"");
  EXPECT_EQ(run.out, "[54.0, -2.0]\n") << run.err;
}

TEST(CInterface, TheProgramInPythonRuns) {
  const TemporaryFolder folder;
  const Process program =
      in_python(GENESIS_SOURCE_ROOT "/examples/python_program.py " + language_model(folder));
  ASSERT_EQ(program.code, 0) << program.err;
  EXPECT_EQ(program.out.find("loss 0.00"), 0u) << program.out;
  EXPECT_NE(program.out.find("\n[31."), std::string::npos) << program.out;
}

TEST(CInterface, ThePackageOfPythonDoesWhatItsTestSays) {
  const TemporaryFolder folder;
  const Process test = in_python(GENESIS_SOURCE_ROOT "/tests/examples/python_test.py " +
                                 language_model(folder) + " " + GENESIS_BUILD_ROOT "/examples/libcube.so");
  EXPECT_EQ(test.code, 0) << test.err;
}

}  // namespace
}  // namespace genesis
