// genesis-run serve: serves a model to clients of OpenAI's API.
#include <fstream>
#include <iostream>

#include "executor/cache_pages.h"
#include "executor/runtime/device.h"
#include "models/serving/service.h"
#include "tools/common/model_name.h"
#include "tools/common/numbers.h"
#include "tools/run/run_commands.h"
#include "tools/serve/http_server.h"
#include "tools/text/sampling_flags.h"

namespace genesis::tools {
namespace {

struct ServeFlags {
  std::string file, hub_name, keys, memory, prefix_cache;
  std::vector<std::string> origins, adapters;
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

void check_sizes(const ServeFlags& flags, const Model& model, const std::string& file) {
  if (writes_texts(model) || (flags.memory.empty() && flags.prefix_cache.empty())) return;
  fail_usage("{}: {} writes no texts, so it has no cache",
             flags.memory.empty() ? "--prefix-cache" : "--memory", file);
}

// Lets --parallel texts share what --memory leaves beside the weights: each gets the pages that it can need.
void share_pages(ServeFlags& flags, const Model& model, int64_t bytes) {
  serving::LanguageOptions& language = flags.service.language;
  language.cache_bytes = bytes;
  const serving::CacheNeeds needs = serving::cache_needs(model, language);
  const int64_t least = needs.row_bytes + (language.rows - 1) * serving::row_bytes(model, needs, 0);
  if (are_mapped_pages(needs.page_bytes) && serving::row_bytes(model, needs, 0) == needs.row_bytes)
    fail(
        "--memory {} has no room for {} texts of {} tokens, {} each: rows of a GPU share memory in pages of "
        "{}, and no part of a "
        "row is a whole number of them; a larger --context shares, a smaller --parallel fits",
        flags.memory, language.rows, needs.positions, human_bytes(needs.row_bytes),
        human_bytes(needs.page_bytes));
  if (bytes < least)
    fail(
        "--memory {} has no room for a text of {} tokens beside {} others: the weights take {}, the text and "
        "rows without one {}; a smaller --context or --parallel needs less",
        flags.memory, needs.positions, language.rows - 1, human_bytes(needs.weight_bytes),
        human_bytes(least));
}

// Gives the cache what --memory leaves beside the weights. If --parallel texts of the longest size do not fit, they share pages where
// the device has them. Throws Error if that has room for fewer than --parallel, or for none.
void fit_memory(ServeFlags& flags, const Model& model, bool is_parallel_given) {
  if (flags.memory.empty()) return;
  constexpr int64_t kMaxRows = 64;
  int64_t& rows = flags.service.language.rows;
  const int64_t bytes = bytes_or_fail("--memory " + flags.memory, flags.memory);
  const serving::CacheNeeds needs = serving::cache_needs(model, flags.service.language);
  const int64_t left = bytes - needs.weight_bytes;
  const int64_t fitting = needs.row_bytes > 0 ? left / needs.row_bytes : 1;
  const bool has_pages = cache_page_bytes(resolve_device(flags.service.language.session.device)) > 0;
  if (is_parallel_given && fitting >= 1 && fitting < rows && has_pages)
    return share_pages(flags, model, left);
  if (fitting < (is_parallel_given ? rows : 1))
    fail(
        "--memory {} has no room for {} texts of {} tokens: the weights take {} and each text {}; a smaller "
        "--context needs less",
        flags.memory, is_parallel_given ? rows : 1, needs.positions, human_bytes(needs.weight_bytes),
        human_bytes(needs.row_bytes));
  if (!is_parallel_given) rows = std::min(fitting, kMaxRows);
}

// Returns how many texts of which length the cache holds: a line for each.
std::string sizes_text(const Model& model, const serving::CacheNeeds& needs) {
  std::string lines;
  if (needs.page_bytes > 0)
    for (int64_t tokens = needs.positions; tokens >= 128; tokens /= 4)
      lines +=
          fmt::format("        {} texts of {} tokens, {} each\n", serving::texts_of(model, needs, tokens),
                      tokens, human_bytes(serving::row_bytes(model, needs, tokens)));
  return lines;
}

void print_needs(const ServeFlags& flags, const std::shared_ptr<const Model>& model) {
  const serving::CacheNeeds needs = serving::cache_needs(*model, flags.service.language);
  const int64_t cache = needs.cache_bytes, steps = serving::step_bytes(model, flags.service.language);
  const int64_t kept = flags.service.language.prefix_bytes;
  const int64_t longest = serving::texts_of(*model, needs, needs.positions);
  flags.out.print({{"texts", longest},
                   {"rows", needs.rows},
                   {"tokens", needs.positions},
                   {"weight_bytes", needs.weight_bytes},
                   {"text_bytes", needs.row_bytes},
                   {"cache_bytes", cache},
                   {"step_bytes", steps},
                   {"prefix_bytes", kept},
                   {"total_bytes", needs.weight_bytes + cache + steps + kept}},
                  [&] {
                    std::cout << fmt::format(
                        "{} texts at a time, of which {} may be of {} tokens with their answers\nweights "
                        "{}\ncache   {}, {} for "
                        "a text of {} tokens\n{}steps   {}\nkept    {} of earlier prompts\ntotal   {}, "
                        "without the program's own\n",
                        needs.rows, longest, needs.positions, human_bytes(needs.weight_bytes),
                        human_bytes(cache), human_bytes(needs.row_bytes), needs.positions,
                        sizes_text(*model, needs), human_bytes(steps), human_bytes(kept),
                        human_bytes(needs.weight_bytes + cache + steps + kept));
                  });
}

// Reads --adapter NAME=FOLDER.
void read_adapters(ServeFlags& flags, const Model& model, const std::string& server) {
  std::set<std::string> names = {server};
  for (const std::string& given : flags.adapters) {
    const size_t equals = given.find('=');
    const std::string name = given.substr(0, equals);
    if (name.empty() || equals + 1 >= given.size() || equals == std::string::npos)
      fail_usage("--adapter {}: expected NAME=FOLDER", given);
    if (!names.insert(name).second)
      fail_usage("--adapter {}: the server's model or another adapter has the name '{}' already", given,
                 name);
    flags.service.language.adapters.push_back(serving::read_adapter(model, name, given.substr(equals + 1)));
  }
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

// A GPU reads many tokens in the time of a few. Reproducible texts share prompts in whole chunks.
void fit_chunks(serving::LanguageOptions& language) {
  language.text.prefill_chunk = language.reproducible ? 512 : 2048;
  if (language.step_tokens == 0) language.step_tokens = 8192;
}

void serve(ServeFlags& flags, const Command& app) {
  if (!flags.keys.empty()) flags.service.keys = read_keys(flags.keys);
  flags.service.origins = {flags.origins.begin(), flags.origins.end()};
  flags.service.is_local = is_loopback(flags.http.host);
  if (!flags.service.is_local && flags.service.keys.empty())
    fail_usage("--host {} lets other machines ask: give --api-key-file with a key for each client",
               flags.http.host);
  flags.service.language.session = flags.run.session_options();
  if (resolve_device(flags.service.language.session.device) != "cpu" && !app.is_given("--prefill-chunk"))
    fit_chunks(flags.service.language);
  flags.http.limits.body_bytes = static_cast<size_t>(flags.body_megabytes * 1e6);
  World world;
  const std::shared_ptr<const Model> model = open_named(flags.file, flags.hub_name, world);
  const std::string file = flags.hub_name.empty() ? flags.file : flags.hub_name;
  if (flags.service.language.reproducible && !flags.service.language.text.draft.empty())
    fail_usage(
        "--reproducible: drafts are verified in products of more rows, which a GPU rounds otherwise; leave "
        "out --draft");
  if (!flags.adapters.empty() && !flags.service.language.text.draft.empty())
    fail_usage("--adapter: drafts are verified without adapters; leave out --draft");
  if (!flags.prefix_cache.empty())
    flags.service.language.prefix_bytes =
        bytes_or_fail("--prefix-cache " + flags.prefix_cache, flags.prefix_cache);
  read_adapters(flags, *model, serving::name_for_clients(flags.service, file));
  check_sizes(flags, *model, file);
  if (writes_texts(*model)) fit_memory(flags, *model, app.is_given("--parallel"));
  if (flags.check) {
    if (!writes_texts(*model)) fail("--check: {} writes no texts, so it has no cache", file);
    return print_needs(flags, model);
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
  command.add_option("--memory", flags.memory,
                     "bytes for weights and cache, such as 60GB: as many texts at a time as they hold, at "
                     "most 64; more "
                     "--parallel texts share them, each as it needs, in pages");
  command.add_option("--prefix-cache", flags.prefix_cache,
                     "bytes of the host, such as 2GB, for what was read of earlier prompts, so that a "
                     "conversation that comes back after many others is not read again; default: none");
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

// Options that name the model, and files beside it.
void add_files(Command& command, ServeFlags& flags) {
  command.add_option("--name", flags.service.name,
                     "name of the model for clients; default: that of the file");
  command
      .add_option(
          "--adapter", flags.adapters,
          "NAME=FOLDER: a LoRA adapter of PEFT, which requests choose as the model NAME; may be given "
          "again")
      ->allow_extra_args(false);
  command.add_option("--tokenizer", flags.service.language.text.tokenizer,
                     "a tokenizer.json, a folder with one, or a model that contains one");
  command.add_option("--template", flags.service.language.text.chat_template,
                     "another chat template: a file .jinja");
}

}  // namespace

void add_serve(Command& app) {
  auto flags = std::make_shared<ServeFlags>();
  flags->service.language.text.prefill_chunk = 64;
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
  add_files(*command, *flags);
  add_context(*command, flags->service.language.text.context);
  add_prefill_chunk(*command, flags->service.language.text.prefill_chunk);
  add_number(
      *command, "--step-tokens", flags->service.language.step_tokens,
      "tokens of prompts that are read between two steps of the other texts; default: a chunk, 8192 on a GPU",
      Range<int64_t>{1, 1 << 20});
  add_drafts(*command, flags->service.language.text);
  command->add_flag("--reproducible", flags->service.language.reproducible,
                    "on a GPU: texts do not depend on other requests, as they never do on the CPU");
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
