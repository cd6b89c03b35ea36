// Tests LoRA adapters that requests choose: against the merged model, against the model without adapters, and beside each other.
#include <gtest/gtest.h>

#include <thread>

#include "models/formats/hugging_face/adapter.h"
#include "models/formats/hugging_face/import.h"
#include "models/zoo.h"
#include "passes/lora/lora.h"
#include "tests/models/checkpoints.h"
#include "tests/models/serving/asked.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis::serving {
namespace {

using namespace genesis::testing;

std::shared_ptr<Model> base_model(const char* dtype = "f32") {
  return models::make_model("qwen2", {{"vocab_size", "256"},
                                      {"hidden_size", "32"},
                                      {"intermediate_size", "64"},
                                      {"num_hidden_layers", "2"},
                                      {"num_attention_heads", "2"},
                                      {"num_key_value_heads", "1"},
                                      {"initializer_range", "0.3"},
                                      {"max_position_embeddings", "256"},
                                      {"dtype", dtype}});
}

// Adds an adapter with values, which differ by `seed`.
void adapt(Model& model, int64_t rank, uint64_t seed, std::vector<std::string> targets = {}) {
  passes::add_lora(model, {.rank = rank, .alpha = 8, .targets = std::move(targets), .seed = seed});
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i) {
    const State& state = model.state(i);
    if (!state.name.ends_with(passes::kLoraB)) continue;
    std::vector<float> values;
    for (int64_t k = 0; k < state.type.numel(); ++k)
      values.push_back(0.02f * static_cast<float>((static_cast<uint64_t>(k) * 37 + seed * 11) % 13) - 0.12f);
    model.set_initial(i, Tensor::of<float>(state.type.shape.sizes(), values));
  }
}

std::unique_ptr<Service> serve(std::shared_ptr<const Model> model, std::vector<text::Adapter> adapters,
                               int64_t rows = 3) {
  ServiceOptions options;
  options.language.rows = rows;
  options.language.text.prefill_chunk = 16;
  options.language.adapters = std::move(adapters);
  return std::make_unique<Service>(std::move(model), "tiny.genesis", options);
}

Json completion(const std::string& prompt, const std::string& model = "tiny") {
  return {{"prompt", prompt}, {"model", model}, {"max_tokens", 12},
          {"logprobs", 2},    {"seed", 3},      {"temperature", 0.7}};
}

Json choice_of(Service& service, const Json& body) {
  return ask(service, "/v1/completions", body).at("choices").at(0);
}

class Adapters : public ::testing::Test {
 protected:
  Adapters() {
    for (const auto& [name, rank] : {std::pair{"one", 4}, std::pair{"two", 7}}) {
      auto adapted = base_model();
      adapt(*adapted, rank, static_cast<uint64_t>(rank),
            rank == 7 ? std::vector<std::string>{"q_proj", "down_proj"} : std::vector<std::string>{});
      models::hugging_face::save_adapter(*adapted, folder_ / name);
      adapters_.push_back(read_adapter(*base_model(), name, folder_ / name));
      merged_.push_back(passes::merge_lora(*adapted));
    }
  }
  TemporaryFolder folder_;
  std::vector<text::Adapter> adapters_;
  std::vector<std::shared_ptr<const Model>> merged_;
};

const std::string kLong =
    "A prompt that is longer than the chunks of sixteen tokens in which it is read, so that it is shared.";

TEST_F(Adapters, WriteWhatTheMergedModelsWrite) {
  const auto service = serve(base_model(), adapters_);
  for (size_t i = 0; i < 2; ++i) {
    const Json own = choice_of(*service, completion(kLong, adapters_[i].name)),
               merged = choice_of(*serve(merged_[i], {}), completion(kLong));
    EXPECT_EQ(own["text"], merged["text"]);
    for (size_t k = 0; k < 12; ++k)
      EXPECT_NEAR(own["logprobs"]["token_logprobs"][k].get<double>(),
                  merged["logprobs"]["token_logprobs"][k].get<double>(), 1e-4);
    EXPECT_NE(own["text"], choice_of(*service, completion(kLong))["text"]);
  }
}

// Tokens and log-probabilities are the same alone, together, with other numbers of rows, and without adapters in the server.
TEST_F(Adapters, KnowNothingOfTheirNeighbors) {
  const auto alone = serve(base_model(), adapters_, 1), together = serve(base_model(), adapters_, 4),
             plain = serve(base_model(), {});
  std::vector<Json> bodies;
  for (const char* prompt : {"Short", kLong.c_str(), "Of middle length, I say"})
    for (const char* model : {"tiny", "one", "tiny:two"}) bodies.push_back(completion(prompt, model));
  std::vector<std::shared_ptr<KeptReply>> replies;
  for (int round = 0; round < 3; ++round)
    for (const Json& body : bodies) replies.push_back(start(*together, "/v1/completions", body));
  for (size_t i = 0; i < replies.size(); ++i) {
    const Json& body = bodies[i % bodies.size()];
    replies[i]->wait();
    const Json got = Json::parse(replies[i]->body()).at("choices").at(0);
    EXPECT_EQ(got, choice_of(*alone, body)) << body;
    if (body["model"] == "tiny") {
      EXPECT_EQ(got, choice_of(*plain, body)) << body;
    }
  }
}

TEST_F(Adapters, ShareNoPromptsWithEachOther) {
  const auto service = serve(base_model(), adapters_);
  const auto cached = [&](const char* model) {
    return ask(*service, "/v1/completions",
               completion(kLong, model))["usage"]["prompt_tokens_details"]["cached_tokens"]
        .get<int>();
  };
  EXPECT_EQ(cached("tiny"), 0);
  EXPECT_EQ(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
  EXPECT_GT(cached("one"), 0);
  EXPECT_GT(cached("tiny"), 0);
}

TEST_F(Adapters, AreListedAndFoundByName) {
  const auto service = serve(base_model(), adapters_);
  const auto get = [&](const std::string& path) {
    const auto reply = start(*service, {"GET", path, "", {{"host", "localhost"}}});
    reply->wait();
    return Json::parse(reply->body());
  };
  const Json list = get("/v1/models")["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "tiny");
  EXPECT_EQ(list[2]["id"], "two");
  EXPECT_EQ(list[2]["parent"], "tiny");
  EXPECT_EQ(get("/v1/models/tiny:one")["id"], "one");
  EXPECT_EQ(ask(*service, "/v1/completions", completion("x", "tiny:one"))["model"], "one");
  const Json error = ask(*service, "/v1/completions", completion("x", "three"), 404)["error"];
  EXPECT_EQ(error["message"], "there is no model 'three': this server has 'tiny', 'one', 'two'");
}

TEST_F(Adapters, OfSixteenBitsServeTheSame) {
  const auto service = serve(base_model("bf16"), adapters_), alone = serve(base_model("bf16"), adapters_, 1);
  const auto base = start(*service, "/v1/completions", completion(kLong)),
             other = start(*service, "/v1/completions", completion("x", "two"));
  EXPECT_EQ(choice_of(*service, completion(kLong, "one")), choice_of(*alone, completion(kLong, "one")));
  base->wait();
  other->wait();
}

TEST_F(Adapters, ThatChangeSharedWeightsAreRefused) {
  auto other = base_model();
  passes::add_lora(*other, {.rank = 2, .targets = {"q_proj"}});
  models::hugging_face::save_adapter(*other, folder_ / "narrow");
  const auto wide = models::make_model("qwen2", {{"vocab_size", "256"},
                                                 {"hidden_size", "64"},
                                                 {"num_hidden_layers", "2"},
                                                 {"num_attention_heads", "2"}});
  EXPECT_THROW(read_adapter(*wide, "narrow", folder_ / "narrow"), Error);
  namespace hf = models::hugging_face;
  const auto model = hf::import_model(testing::checkpoints() / "qwen2_sharded");
  const std::filesystem::path modules = testing::checkpoints() / "qwen2_modules";
  testing::expect_error([&] { read_adapter(*model, "modules", modules); },
                        {"qwen2_modules", "all texts share"});
  hf::load_adapter(*model, modules);
  const auto merged = passes::merge_lora(*model);
  testing::expect_error([&] { read_adapter(*merged, "modules", modules); },
                        {"qwen2_modules", "all texts share"});
}

}  // namespace
}  // namespace genesis::serving
