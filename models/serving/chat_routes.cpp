// /v1/chat/completions and /apply-template.
#include "models/serving/chat_format.h"
#include "models/serving/chat_messages.h"
#include "models/serving/format_fields.h"
#include "models/serving/routes.h"
#include "models/serving/sampling_fields.h"

namespace genesis::serving {
namespace {

// Fields that only concern services with accounts, storage or several machines.
const std::vector<std::string> kWithoutEffect = {"user",
                                                 "metadata",
                                                 "store",
                                                 "service_tier",
                                                 "safety_identifier",
                                                 "prompt_cache_key",
                                                 "parallel_tool_calls",
                                                 "reasoning_effort",
                                                 "verbosity"};

void read_logprobs(Fields& fields, text::GenerateOptions& options) {
  options.logprobs = fields.flag("logprobs").value_or(false);
  options.top_logprobs = fields.number("top_logprobs", Range<int64_t>{0, text::kMaxTopLogprobs}).value_or(0);
  if (options.top_logprobs > 0 && !options.logprobs)
    refuse("top_logprobs", "top_logprobs: only a request with \"logprobs\": true has them");
}

std::optional<int64_t> read_max_tokens(Fields& fields) {
  const auto older = fields.number("max_tokens", at_least<int64_t>(1)),
             newer = fields.number("max_completion_tokens", at_least<int64_t>(1));
  return newer ? newer : older;
}

}  // namespace

void answer_chat(const Call& call) {
  const LanguageModel& model = call.language();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const ChosenModel chosen = read_model(fields, call.host);
  const Json messages = template_messages(fields.required("messages", "a list of messages"), "messages");
  const ToolChoice tools = read_tools(fields);
  const std::optional<int64_t> max_tokens = read_max_tokens(fields);
  text::GenerateSettings settings = read_settings(fields, model);
  settings.max_tokens = max_tokens.value_or(model.capacity());
  const Delivery delivery = read_delivery(fields);
  TextTask task = {.n = delivery.n,
                   .adapter = chosen.adapter,
                   .options = model.options(settings, true),
                   .streams = delivery.streams};
  read_logprobs(fields, task.options);
  read_format(fields, model, tools, task);
  fields.ignore(kWithoutEffect);
  fields.refuse_others();
  task.prompts.push_back(model.encode(model.render(messages, tools.variables), false));
  check_length(model, task.prompts, max_tokens);
  task.headers = answer_headers(task.options, fields);
  task.format = std::make_unique<ChatFormat>(
      model, ChatFormat::Options{chosen.name, static_cast<size_t>(task.n), task.streams,
                                 delivery.includes_usage, task.options.logprobs, tools.may_call});
  start_texts(call.language(), std::move(task), call.reply, call.client);
}

void answer_template(const Call& call) {
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  read_model(fields, call.host);
  const Json messages = template_messages(fields.required("messages", "a list of messages"), "messages");
  const ToolChoice tools = read_tools(fields);
  fields.refuse_others();
  call.send({{"prompt", call.language().render(messages, tools.variables)}});
}

}  // namespace genesis::serving
