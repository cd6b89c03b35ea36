// Tests the server without sockets. Most tests bear the names of llama.cpp's (tools/server/tests/unit) whose promises they check.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "models/serving/tool_calls.h"
#include "tests/models/serving/asked.h"
#include "tests/models/tiny_chat_model.h"

namespace genesis::serving {
namespace {

using namespace genesis::testing;

std::shared_ptr<const Model> tiny_model() {
  static const std::shared_ptr<const Model> made = tiny_chat_model();
  return made;
}

std::unique_ptr<Service> make_service(int64_t rows, ServiceOptions options = {}) {
  options.language.rows = rows;
  options.language.text.prefill_chunk = 16;
  return std::make_unique<Service>(tiny_model(), "tiny.genesis", options);
}

Json message(const std::string& text) { return Json::array({{{"role", "user"}, {"content", text}}}); }

Json chat(const std::string& text, Json more = Json::object()) {
  Json body = {{"messages", message(text)}, {"max_tokens", 8}, {"seed", 5}, {"ignore_eos", true}};
  body.update(more);
  return body;
}

class Serve : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { service_ = make_service(3); }
  static void TearDownTestSuite() { service_.reset(); }
  static Json answer(const std::string& path, const Json& body, int status = 200) {
    return ask(*service_, path, body, status);
  }
  static void expect_refused(const std::string& path, const Json& body, const std::string& param,
                             const std::string& part) {
    const Json error = answer(path, body, 400).at("error");
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    EXPECT_EQ(error.at("param"), param.empty() ? Json() : Json(param)) << error;
    EXPECT_NE(error.at("message").get<std::string>().find(part), std::string::npos) << error;
  }
  static std::unique_ptr<Service> service_;
};
std::unique_ptr<Service> Serve::service_;

const std::string kChat = "/v1/chat/completions";

TEST_F(Serve, ChatCompletion) {
  const Json made = answer(kChat, chat("In the beginning"));
  EXPECT_EQ(made["object"], "chat.completion");
  EXPECT_EQ(made["model"], "tiny");
  EXPECT_EQ(made["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(made["choices"][0]["message"]["content"].get<std::string>().empty());
  EXPECT_EQ(made["usage"]["completion_tokens"], 8);
  EXPECT_EQ(made["usage"]["total_tokens"], made["usage"]["prompt_tokens"].get<int>() + 8);
}

TEST_F(Serve, ChatCompletionStream) {
  const Json whole =
      answer(kChat, chat("In the beginning", {{"n", 2}, {"logprobs", true}, {"top_logprobs", 2}}));
  const auto reply = start(*service_, kChat,
                           chat("In the beginning", {{"n", 2},
                                                     {"logprobs", true},
                                                     {"top_logprobs", 2},
                                                     {"stream", true},
                                                     {"stream_options", {{"include_usage", true}}}}));
  reply->wait();
  EXPECT_EQ(reply->header("content-type"), "text/event-stream");
  EXPECT_TRUE(reply->body().ends_with("data: [DONE]\n\n"));
  std::vector<std::string> texts(2);
  std::vector<Json> logprobs(2, Json::array());
  const auto events = events_of(reply->body());
  for (const Json& event : events)
    for (const Json& choice : event["choices"]) {
      const size_t index = choice["index"];
      texts[index] += choice["delta"].value("content", "");
      if (!choice["logprobs"].is_null())
        for (const Json& each : choice["logprobs"]["content"]) logprobs[index].push_back(each);
    }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["message"]["content"]);
    EXPECT_EQ(logprobs[i], whole["choices"][i]["logprobs"]["content"]);
    EXPECT_EQ(logprobs[i].size(), 8u);
    EXPECT_EQ(logprobs[i][0]["top_logprobs"].size(), 2u);
  }
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 16);
  EXPECT_TRUE(events.front()["usage"].is_null());
}

TEST_F(Serve, ConsistentResultSameSeed) {
  const auto text = [&](const Json& more) {
    return answer(kChat,
                  chat("In the", more.is_null() ? Json::object() : more))["choices"][0]["message"]["content"]
        .get<std::string>();
  };
  EXPECT_EQ(text({}), text({}));
  EXPECT_NE(text({}), text({{"seed", 6}}));
  const auto reply = start(*service_, kChat, {{"messages", message("x")}, {"max_tokens", 2}});
  reply->wait();
  EXPECT_FALSE(reply->header("x-genesis-seed").empty());  // a random one
}

TEST_F(Serve, SecondTextIsThatOfTheNextSeed) {
  const Json both =
      answer("/v1/completions", {{"prompt", "In the"}, {"n", 2}, {"seed", 5}, {"ignore_eos", true}});
  const Json next = answer("/v1/completions", {{"prompt", "In the"}, {"seed", 6}, {"ignore_eos", true}});
  EXPECT_EQ(both["choices"][1]["text"], next["choices"][0]["text"]);
  EXPECT_EQ(both["usage"]["completion_tokens"], 32);  // 16 each, as OpenAI has it
}

TEST_F(Serve, CompletionsOfSeveralPrompts) {
  const Json tokens = answer("/tokenize", {{"content", "In the"}})["tokens"];
  const Json one =
      answer("/v1/completions",
             {{"prompt", tokens}, {"seed", 5}, {"temperature", 0}, {"ignore_eos", true}, {"logprobs", 1}});
  const Json two =
      answer("/v1/completions",
             {{"prompt", {"beginning", "In the"}}, {"temperature", 0}, {"ignore_eos", true}, {"echo", true}});
  EXPECT_EQ(two["choices"][1]["text"], "In the" + one["choices"][0]["text"].get<std::string>());
  EXPECT_EQ(one["choices"][0]["logprobs"]["tokens"].size(), 16u);
}

TEST_F(Serve, StopStringsEndTexts) {
  const std::string whole =
      answer(kChat, chat("In the", {{"max_tokens", 24}}))["choices"][0]["message"]["content"];
  const std::string stop = whole.substr(whole.size() / 2, 3);
  const Json cut = answer(kChat, chat("In the", {{"max_tokens", 24}, {"stop", stop}}))["choices"][0];
  EXPECT_EQ(cut["message"]["content"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(cut["finish_reason"], "stop");
}

TEST_F(Serve, LogitBias) {
  const Json first = answer("/tokenize", {{"content", "the"}, {"with_pieces", true}})["tokens"][0];
  const Json made = answer(
      "/v1/completions",
      {{"prompt", "In"}, {"max_tokens", 3}, {"logit_bias", {{first["id"].dump(), 100}}}, {"temperature", 0}});
  const std::string piece = first["piece"];
  EXPECT_EQ(made["choices"][0]["text"], piece + piece + piece);
  expect_refused(kChat, chat("x", {{"logit_bias", {{"909", 1}}}}), "logit_bias", "none of the model's 909");
}

TEST_F(Serve, ContextSizeExceeded) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += " the";
  const Json error = answer(kChat, chat(text), 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(answer(kChat, chat("x", {{"max_tokens", 256}}), 400)["error"]["code"], "context_length_exceeded");
  const Json all = answer(kChat, {{"messages", message("x")}, {"ignore_eos", true}, {"temperature", 0}});
  EXPECT_EQ(all["usage"]["total_tokens"], 256);
  EXPECT_EQ(all["choices"][0]["finish_reason"], "length");
}

TEST_F(Serve, InvalidChatCompletionReq) {
  expect_refused(kChat, chat("x", {{"temprature", 1}}), "temprature", "not known");
  expect_refused(kChat, chat("x", {{"temperature", "hot"}}), "temperature",
                 "expected a number of 0 or more, at most 1000000, got \"hot\"");
  expect_refused(kChat, chat("x", {{"max_tokens", 0}}), "max_tokens", "1 or more");
  expect_refused(kChat, chat("x", {{"n", 100}}), "n", "a request of 100 texts");
  expect_refused(kChat, chat("x", {{"top_logprobs", 2}}), "top_logprobs", "\"logprobs\": true");
  expect_refused(kChat, chat("x", {{"stream_options", Json::object()}}), "stream_options",
                 "\"stream\": true");
  expect_refused(kChat, {{"messages", "Hi"}}, "messages", "expected a list");
  expect_refused(kChat, {{"messages", {{{"content", "Hi"}}}}}, "messages[0].role", "expected a string");
  expect_refused(kChat, {{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}},
                 "messages[0].content", "image_url");
  EXPECT_EQ(answer(kChat, Json::object(), 400)["error"]["code"], "missing_required_parameter");
  EXPECT_EQ(answer(kChat, chat("x", {{"model", "gpt-4"}}), 404)["error"]["code"], "model_not_found");
  for (const char* body : {"", "[1]", "{\"a\"", "\xff"}) {
    const auto reply = start(*service_, {"POST", kChat, body, {}});
    EXPECT_EQ(reply->status(), 400) << body;
  }
  const auto deep = start(*service_, {"POST", kChat, std::string(100000, '['), {}});
  EXPECT_EQ(deep->status(), 400);
  Json large = chat("x");
  for (int i = 0; i < 2001; ++i) large["logit_bias"][std::to_string(i)] = 0;
  expect_refused(kChat, large, "", "more than 2000 members");
}

TEST_F(Serve, FieldsWithoutEffectAreNamed) {
  const auto reply = start(*service_, kChat, chat("x", {{"user", "me"}, {"store", false}}));
  reply->wait();
  EXPECT_EQ(reply->header("x-genesis-ignored"), "user, store");
}

TEST_F(Serve, TokenizeDetokenize) {
  const Json tokens = answer("/tokenize", {{"content", "In the beginning"}})["tokens"];
  EXPECT_EQ(answer("/detokenize", {{"tokens", tokens}})["content"], "In the beginning");
  const Json with_pieces = answer("/tokenize", {{"content", "In the beginning"}, {"with_pieces", true}});
  std::string pieces;
  for (const Json& token : with_pieces["tokens"]) pieces += token["piece"].get<std::string>();
  EXPECT_EQ(pieces, "In the beginning");
}

TEST_F(Serve, ApplyChatTemplate) {
  const Json content = {{{"type", "text"}, {"text", "Hi"}}, {{"type", "text"}, {"text", "!"}}};
  EXPECT_EQ(
      answer("/apply-template", {{"messages", {{{"role", "developer"}, {"content", content}}}}})["prompt"],
      "<|im_start|>system\nHi!<|im_end|>\n<|im_start|>assistant\n");
}

// OpenAI's client sends a null content beside calls, and this template adds it to texts.
TEST_F(Serve, CallsOfToolsNeedNoContent) {
  Json messages = message("a");
  messages.push_back(
      {{"role", "assistant"},
       {"content", nullptr},
       {"tool_calls",
        {{{"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}}}}});
  messages.push_back({{"role", "tool"}, {"tool_call_id", "1"}, {"content", "b"}});
  EXPECT_EQ(
      answer("/apply-template", {{"messages", messages}})["prompt"],
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\nb<|im_end|>\n"
      "<|im_start|>assistant\n");
}

TEST_F(Serve, Responses) {
  const Json body = {
      {"input", "In the"}, {"max_output_tokens", 4}, {"seed", 5}, {"ignore_eos", true}, {"store", false}};
  const Json whole = answer("/v1/responses", body);
  EXPECT_EQ(whole["status"], "incomplete");
  Json streamed = body;
  streamed["stream"] = true;
  const auto reply = start(*service_, "/v1/responses", streamed);
  reply->wait();
  std::string text;
  int number = 0;
  for (const Json& event : events_of(reply->body())) {
    EXPECT_EQ(event["sequence_number"], number++);
    if (event["type"] == "response.output_text.delta") text += event["delta"].get<std::string>();
  }
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(answer("/v1/responses", {{"input", "x"}, {"previous_response_id", "y"}}, 400)["error"]["param"],
            "previous_response_id");
}

// Answers a request in a service of its own, with one row.
Json alone(const Json& body) { return ask(*make_service(1), "/v1/completions", body)["choices"]; }

Json poisson_request(int number) {
  const std::string shared =
      "In the beginning was the word, and the word was with the beginning of the end of the word ";
  Json body = {
      {"prompt", (number % 3 == 0 ? "" : shared) + std::string(static_cast<size_t>(number % 5 + 1), 'a')},
      {"max_tokens", 4 + 5 * (number % 4)},
      {"seed", number},
      {"logprobs", 2},
      {"ignore_eos", true}};
  if (number % 4 == 1) body["presence_penalty"] = 0.5;
  return body;
}

// llama.cpp: test_consistent_result_different_batch_size, test_cache_vs_nocache_prompt and test_completion_parallel_slots.
TEST_F(Serve, ConsistentResultDifferentBatchSize) {
  constexpr int kCount = 8;
  std::vector<Json> expected;
  for (int i = 0; i < kCount; ++i) expected.push_back(alone(poisson_request(i)));
  for (const int64_t rows : {1, 4}) {
    const auto service = make_service(rows);
    std::vector<std::shared_ptr<KeptReply>> replies;
    for (int i = 0; i < kCount; ++i) {
      replies.push_back(start(*service, "/v1/completions", poisson_request(i)));
      std::this_thread::sleep_for(std::chrono::milliseconds(i * 7 % 11));
    }
    int cached = 0;
    for (int i = 0; i < kCount; ++i) {
      replies[i]->wait();
      const Json made = Json::parse(replies[i]->body());
      EXPECT_EQ(made["choices"], expected[i]) << i << " with " << rows << " rows";
      cached += made["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
    }
    EXPECT_GT(cached, 0);
  }
}

TEST_F(Serve, CancelRequest) {
  const auto service = make_service(1);
  const Json endless = {{"prompt", "In"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}};
  const auto first = start(*service, "/v1/completions", endless),
             second = start(*service, "/v1/completions", endless);
  first->wait("data: ");
  first->leave();
  second->leave();  // while it waits
  const Json made =
      ask(*service, "/v1/completions", {{"prompt", "In"}, {"max_tokens", 2}, {"ignore_eos", true}});
  EXPECT_EQ(made["usage"]["completion_tokens"], 2);
  const std::string metrics = service->host().metrics.text();
  for (const char* part : {"genesis_texts_total{reason=\"cancelled\"} 2", "genesis_prompt_runs_total{tokens=",
                           "genesis_step_run_seconds_total{rows=", "genesis_engine_seconds_total "})
    EXPECT_NE(metrics.find(part), std::string::npos) << part;
  while (!service->is_idle()) std::this_thread::yield();
}

TEST_F(Serve, FullQueueIsRefused) {
  ServiceOptions options;
  options.language.queue = 1;
  const auto service = make_service(1, options);
  const Json endless = {{"prompt", "In"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}};
  std::vector<std::shared_ptr<KeptReply>> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(start(*service, "/v1/completions", endless));
  EXPECT_EQ(replies[2]->status(), 429);
  EXPECT_EQ(replies[2]->header("retry-after"), "1");
  for (const auto& reply : replies) reply->leave();
  service->drain();
  EXPECT_EQ(start(*service, "/v1/completions", endless)->status(), 503);
}

TEST_F(Serve, IncorrectApiKey) {
  ServiceOptions options;
  options.keys = {"sk-one", "sk-two"};
  const auto service = make_service(1, options);
  const auto status = [&](const std::string& path, const std::string& key) {
    return start(*service, {"GET", path, "", {{"authorization", key}, {"host", "example.org"}}})->status();
  };
  EXPECT_EQ(status("/health", ""), 200);
  for (const char* key : {"", "Bearer sk-on", "Bearer sk-one2", "Bearer ", "sk-one", "Basic sk-one"})
    EXPECT_EQ(status("/v1/models", key), 401) << key;
  EXPECT_EQ(status("/v1/models", "Bearer sk-two"), 200);
  EXPECT_EQ(status("/v1/models/tiny", "Bearer sk-one"), 200);
  EXPECT_EQ(status("/v1/models/other", "Bearer sk-one"), 404);
}

// The time of an answer must not tell a client what others have asked.
TEST_F(Serve, KeysShareNoPrompts) {
  ServiceOptions options;
  options.keys = {"sk-one", "sk-two"};
  const auto service = make_service(4, options);
  const auto begin = [&](const std::string& key, Json more) {
    Json body = {
        {"prompt",
         "In the beginning was the word, and the word was with the beginning of the end of the word and in "
         "the beginning was the end of the word and of all the words that were in it"},
        {"max_tokens", 2},
        {"ignore_eos", true}};
    body.update(more);
    return start(*service, {"POST", "/v1/completions", body.dump(), {{"authorization", "Bearer " + key}}});
  };
  const auto cached = [&](const std::string& key, const Json& more = Json::object()) {
    const auto reply = begin(key, more);
    reply->wait();
    return Json::parse(reply->body())["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached("sk-one"), 0);
  EXPECT_GT(cached("sk-one"), 0);
  EXPECT_EQ(cached("sk-two"), 0);
  EXPECT_GT(cached("sk-two"), 0);
  // Several texts of a prompt copy it from one that has read it, but not from another client's.
  const Json other = {{"prompt", "And God saw the light, that it was good."}};
  Json endless = other;
  endless.update({{"max_tokens", 200}, {"stream", true}});
  const auto running = begin("sk-one", endless);
  running->wait("data: ");
  Json twice = other;
  twice["n"] = 2;
  EXPECT_EQ(cached("sk-two", twice), 0);
  running->leave();
}

TEST_F(Serve, CorsOptions) {
  ServiceOptions options;
  options.origins = {"https://good.example"};
  const auto service = make_service(1, options);
  const auto asked = [&](const std::string& method, const std::string& origin, const std::string& host) {
    return start(*service, {method, "/v1/models", "", {{"origin", origin}, {"host", host}}});
  };
  EXPECT_EQ(asked("OPTIONS", "https://good.example", "localhost")->header("access-control-allow-origin"),
            "https://good.example");
  EXPECT_EQ(asked("GET", "https://good.example", "localhost:8080")->status(), 200);
  EXPECT_EQ(asked("GET", "https://bad.example", "localhost")->status(), 403);
  EXPECT_EQ(asked("GET", "http://localhost:80", "localhost:80")->status(), 200);
  EXPECT_EQ(asked("GET", "", "rebound.example")->status(),
            403);  // a page that calls its own name this machine
}

TEST_F(Serve, CompletionWithJsonSchema) {
  const Json schema = {
      {"type", "object"},
      {"properties", {{"name", {{"type", "string"}, {"maxLength", 5}}}, {"age", {{"type", "integer"}}}}},
      {"required", {"name", "age"}},
      {"additionalProperties", false}};
  const Json format = {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}};
  for (const int seed : {1, 2, 3}) {
    const Json made =
        answer(kChat, {{"messages", message("x")}, {"seed", seed}, {"response_format", format}});
    ASSERT_EQ(made["choices"][0]["finish_reason"], "stop") << made;
    const Json person = Json::parse(made["choices"][0]["message"]["content"].get<std::string>());
    ASSERT_TRUE(person.size() == 2 && person["name"].is_string() && person["age"].is_number()) << person;
    EXPECT_EQ(person["age"].get<double>(), std::floor(person["age"].get<double>())) << person;  // 9 or 9.0
  }
  const Json choice =
      answer(kChat, {{"messages", message("x")}, {"structured_outputs", {{"choice", {"red", "green"}}}}});
  const std::string color = choice["choices"][0]["message"]["content"];
  EXPECT_TRUE(color == "red" || color == "green") << color;
  expect_refused(kChat, chat("x", {{"response_format", {{"type", "xml"}}}}), "response_format.type",
                 "json_object");
  const Json gbnf = answer(kChat, {{"messages", message("x")}, {"grammar", "root ::= \"b\" [xy]{3}"}});
  EXPECT_EQ(gbnf["choices"][0]["message"]["content"].get<std::string>().size(), 4u);
  expect_refused(kChat, {{"messages", message("x")}, {"grammar", "root ::= a"}}, "grammar", "no rule");
}

TEST_F(Serve, ToolsMayBeForced) {
  const Json tool = {
      {"type", "function"},
      {"function",
       {{"name", "add"},
        {"parameters",
         {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}, {"required", {"a"}}}}}}};
  const Json made =
      answer(kChat, {{"messages", message("x")}, {"tools", {tool}}, {"tool_choice", "required"}});
  EXPECT_EQ(made["choices"][0]["finish_reason"], "tool_calls") << made;
  const Json call = made["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "add");
  const Json number = Json::parse(call["arguments"].get<std::string>())["a"];
  ASSERT_TRUE(number.is_number()) << call;
  EXPECT_EQ(number.get<double>(), std::floor(number.get<double>())) << call;  // 9 or 9.0
}

TEST_F(Serve, ResponsesWithTools) {
  const Json schema = {
      {"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}, {"required", {"a"}}};
  const Json tool = {{"type", "function"}, {"name", "add"}, {"parameters", schema}, {"strict", true}};
  Json body = {{"input", "x"},
               {"tools", {tool}},
               {"tool_choice", {{"type", "function"}, {"name", "add"}}},
               {"seed", 5}};
  const Json made = answer("/v1/responses", body);
  ASSERT_EQ(made["output"].size(), 1u) << made;
  const Json call = made["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "add");
  const Json number = Json::parse(call["arguments"].get<std::string>())["a"];
  ASSERT_TRUE(number.is_number()) << call;
  EXPECT_EQ(number.get<double>(), std::floor(number.get<double>())) << call;  // 9 or 9.0
  body["stream"] = true;
  const auto reply = start(*service_, "/v1/responses", body);
  reply->wait();
  std::string arguments;
  for (const Json& event : events_of(reply->body()))
    if (event["type"] == "response.function_call_arguments.delta")
      arguments += event["delta"].get<std::string>();
  EXPECT_EQ(arguments, call["arguments"]);
  // The conversation goes on with what the tool has returned, and an answer of a given form.
  const Json next = {{{"role", "user"}, {"content", "x"}},
                     call,
                     {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "3"}}};
  const Json form = {{"format", {{"type", "json_schema"}, {"name", "n"}, {"schema", schema}}}};
  const Json last = answer("/v1/responses", {{"input", next}, {"text", form}, {"seed", 5}});
  const Json text = Json::parse(last["output"][0]["content"][0]["text"].get<std::string>());
  ASSERT_TRUE(text["a"].is_number()) << text;
  EXPECT_EQ(text["a"].get<double>(), std::floor(text["a"].get<double>())) << text;
  expect_refused("/v1/responses", {{"input", "x"}, {"tools", {{{"type", "web_search"}}}}}, "tools",
                 "function");
}

TEST(ToolCalls, AreFoundInPieces) {
  const std::string text =
      "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
      "1}}\n</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  for (const size_t step : {1u, 7u, 1000u}) {
    ToolCallReader reader;
    ToolText all;
    const auto take = [&](const ToolText& found) {
      all.text += found.text;
      all.calls.insert(all.calls.end(), found.calls.begin(), found.calls.end());
    };
    for (size_t at = 0; at < text.size(); at += step) take(reader.add(text.substr(at, step)));
    take(reader.finish());
    ASSERT_EQ(all.calls.size(), 2u);
    EXPECT_EQ(all.calls[0].arguments, "{\"a\":1}");
    EXPECT_EQ(all.calls[1].name, "g");
    EXPECT_EQ(all.text.substr(0, 11), "Let me see.");
  }
}

TEST(ToolCalls, WithoutMarks) {
  const auto all = [](const std::string& text) {
    ToolCallReader reader;
    ToolText found = reader.add(text), rest = reader.finish();
    rest.text = found.text + rest.text;
    return rest;
  };
  EXPECT_EQ(all("{\"name\": \"f\", \"parameters\": {}}").calls.size(), 1u);
  EXPECT_EQ(all("[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]")
                .calls.size(),
            2u);
  for (const char* text : {"{\"name\": 1}", "a < b", "<tool_call>{\"name\"", "1 <tool", "[1, 2]"}) {
    EXPECT_EQ(all(text).calls.size(), 0u) << text;
    EXPECT_EQ(all(text).text, text);
  }
}

}  // namespace
}  // namespace genesis::serving
