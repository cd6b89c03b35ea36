// genesis-run serve: serves a model to clients of OpenAI's API.
#include <fstream>
#include <iostream>

#include "models/serving/service.h"
#include "tools/common/model_name.h"
#include "tools/common/numbers.h"
#include "tools/run/run_commands.h"
#include "tools/serve/http_server.h"
#include "tools/text/sampling_flags.h"

namespace genesis::tools {
namespace {

struct ServeFlags {
  std::string file, hub_name, keys, memory;
  std::vector<std::string> origins;
  serving::ServiceOptions service;
  HttpOptions http;
  double body_megabytes = 16;
  bool check = false;
  RunFlags run;
  Output out;
};

// Reads one key per line. Empty lines and those that begin with # are none.
std::set<std::string> read_keys(const std::string& path) {
  std::ifstream in(path);
  if (!in) fail("cannot read the keys in {}", path);
  std::set<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty() && !line.starts_with('#')) keys.insert(line);
  }
  if (keys.empty()) fail("{} has no key: write one per line", path);
  return keys;
}

bool writes_texts(const Model& model) { return model.find_entry("prefill") && model.find_entry("decode"); }

// Gives the cache as many rows as --memory has room for. Throws Error if it has room for fewer than --parallel, or for none.
void fit_memory(ServeFlags& flags, const Model& model, bool is_parallel_given) {
  if (flags.memory.empty()) return;
  constexpr int64_t kMaxRows = 64;
  int64_t& rows = flags.service.language.rows;
  const int64_t bytes = bytes_or_fail("--memory " + flags.memory, flags.memory);
  const serving::CacheNeeds needs = serving::cache_needs(model, flags.service.language);
  const int64_t fitting = needs.row_bytes > 0 ? (bytes - needs.weight_bytes) / needs.row_bytes : 1;
  if (fitting < (is_parallel_given ? rows : 1))
    fail(
        "--memory {} has no room for {} texts of {} tokens: the weights take {} and each text {}; a smaller "
        "--context needs less",
        flags.memory, is_parallel_given ? rows : 1, needs.positions, human_bytes(needs.weight_bytes),
        human_bytes(needs.row_bytes));
  if (!is_parallel_given) rows = std::min(fitting, kMaxRows);
}

void print_needs(const ServeFlags& flags, const Model& model) {
  const serving::CacheNeeds needs = serving::cache_needs(model, flags.service.language);
  const int64_t cache = needs.rows * needs.row_bytes;
  flags.out.print({{"texts", needs.rows},
                   {"tokens", needs.positions},
                   {"weight_bytes", needs.weight_bytes},
                   {"text_bytes", needs.row_bytes},
                   {"cache_bytes", cache},
                   {"total_bytes", needs.weight_bytes + cache}},
                  [&] {
                    std::cout << fmt::format(
                        "{} texts at a time, each of {} tokens with its answer\nweights {}\ncache   {}, {} "
                        "for each text\ntotal   "
                        "{}, without buffers of single steps\n",
                        needs.rows, needs.positions, human_bytes(needs.weight_bytes), human_bytes(cache),
                        human_bytes(needs.row_bytes), human_bytes(needs.weight_bytes + cache));
                  });
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

void say_where(const ServeFlags& flags, const serving::Service& service, int port) {
  const std::string host =
      flags.http.host.find(':') == std::string::npos ? flags.http.host : "[" + flags.http.host + "]";
  std::string texts;
  if (const serving::LanguageModel* model = service.host().language.get())
    texts = fmt::format(", {} texts of {} tokens at a time", model->rows(), model->capacity());
  std::cerr << fmt::format("serving {} at http://{}:{}{}\n", service.host().name, host, port, texts)
            << std::flush;
}

void serve(ServeFlags& flags, const Command& app) {
  if (!flags.keys.empty()) flags.service.keys = read_keys(flags.keys);
  flags.service.origins = {flags.origins.begin(), flags.origins.end()};
  flags.service.is_local = is_loopback(flags.http.host);
  if (!flags.service.is_local && flags.service.keys.empty())
    fail_usage("--host {} lets other machines ask: give --api-key-file with a key for each client",
               flags.http.host);
  flags.service.language.session = flags.run.session_options();
  flags.http.limits.body_bytes = static_cast<size_t>(flags.body_megabytes * 1e6);
  World world;
  const std::shared_ptr<const Model> model = open_named(flags.file, flags.hub_name, world);
  const std::string file = flags.hub_name.empty() ? flags.file : flags.hub_name;
  if (writes_texts(*model)) fit_memory(flags, *model, app.is_given("--parallel"));
  if (flags.check) {
    if (!writes_texts(*model)) fail("--check: {} writes no texts, so it has no cache", file);
    return print_needs(flags, *model);
  }
  // The service ends first: its requests keep connections, which need the server.
  serving::Service* served = nullptr;
  flags.http.handle = [&](const serving::HttpRequest& request, const std::shared_ptr<serving::Reply>& reply) {
    served->handle(request, reply);
  };
  flags.http.on_drain = [&] { served->drain(); };
  flags.http.is_idle = [&] { return served->is_idle(); };
  HttpServer server(flags.http);
  serving::Service service(model, file, flags.service);
  served = &service;
  say_where(flags, service, server.port());
  server.run();
}

void add_limits(Command& command, ServeFlags& flags) {
  HttpLimits& limits = flags.http.limits;
  add_number(command, "--parallel", flags.service.language.rows, "texts that are generated at a time",
             Range<int64_t>{1, 4096});
  add_number(command, "--queue", flags.service.language.queue,
             "texts that may wait; more are refused with the status 429", Range<int64_t>{0, 1000000});
  command.add_option(
      "--memory", flags.memory,
      "bytes for weights and cache, such as 60GB: as many texts at a time as they hold, at most 64");
  add_number(command, "--connections", limits.connections, "connections that may be open",
             Range<int>{1, 100000});
  add_number(command, "--max-body", flags.body_megabytes, "megabytes of a request",
             Range<double>{0.001, 1000});
  add_number(command, "--request-seconds", limits.request_seconds, "time until a request must be complete",
             Range<double>{0.1, 86400});
  add_number(command, "--write-seconds", limits.write_seconds,
             "time until a client must take more of its answer", Range<double>{0.1, 86400});
  add_number(command, "--drain-seconds", flags.http.drain_seconds,
             "time that requests under way get after SIGTERM", Range<double>{0, 86400});
}

}  // namespace

void add_serve(Command& app) {
  auto flags = std::make_shared<ServeFlags>();
  flags->service.language.text.prefill_chunk = 128;
  Command* command = app.add_subcommand("serve", "serve a model to clients of OpenAI's API");
  add_model_name(*command, flags->file, flags->hub_name,
                 "a .genesis file of a language model or an encoder, or a folder of checkpoints");
  command->add_option("--host", flags->http.host,
                      "address to listen on; others than 127.0.0.1 need --api-key-file");
  add_number(*command, "--port", flags->http.port, "port to listen on; 0: any free one",
             Range<int>{0, 65535});
  command->add_option("--api-key-file", flags->keys,
                      "a file with a key per line: clients must have one of them");
  command
      ->add_option(
          "--origin", flags->origins,
          "an origin of web pages that may ask, such as https://example.org, or *; may be given again")
      ->allow_extra_args(false);
  command->add_option("--name", flags->service.name,
                      "name of the model for clients; default: that of the file");
  command->add_option("--tokenizer", flags->service.language.text.tokenizer,
                      "a tokenizer.json, a folder with one, or a model that contains one");
  command->add_option("--template", flags->service.language.text.chat_template,
                      "another chat template: a file .jinja");
  add_context(*command, flags->service.language.text.context);
  add_prefill_chunk(*command, flags->service.language.text.prefill_chunk);
  add_limits(*command, *flags);
  command->add_flag("--check", flags->check,
                    "print how many texts of which length the memory holds, and end");
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run serve qwen.genesis --port 8080\n  curl localhost:8080/v1/chat/completions -d "
      "'{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}'");
  command->callback([flags, command] { serve(*flags, *command); });
}

}  // namespace genesis::tools
