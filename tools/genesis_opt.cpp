// genesis-opt: rewrites model files. Adds training, optimizes for inference, shows what passes do, and plans memory.
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>
#include <utility>

#include "executor/runtime/device.h"
#include "executor/switches.h"
#include "executor/training/checkpoint.h"
#include "models/formats/hugging_face/adapter.h"
#include "models/jobs/output_files.h"
#include "models/jobs/training_checks.h"
#include "passes/core/extract.h"
#include "passes/core/quantized_cache.h"
#include "passes/lora/lora.h"
#include "passes/memory/offsets/plan_csv.h"
#include "passes/pipelines.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/passes.h"
#include "passes/training/add_loss.h"
#include "passes/training/evaluation.h"
#include "passes/training/expert_load.h"
#include "passes/training/train_step.h"
#include "passes/training/weight_average.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "schema/messages/log.h"
#include "tools/common/file_progress.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/tool.h"
#include "tools/common/usage.h"
#include "tools/opt/check.h"
#include "tools/opt/lists.h"
#include "tools/opt/quantize.h"
#include "tools/opt/rewrite_values.h"
#include "tools/text/sampling_flags.h"

namespace genesis::tools {
namespace {

constexpr const char* kExamples = R"(Examples:
  genesis-opt qwen2.genesis --train adamw,lr=1e-3,clip=1.0,schedule=warmup_cosine,warmup=50,total=500 -o train.genesis
  genesis-opt qwen2.genesis --train adamw,lr=1e-3 --group '*.bias,*norm*: weight_decay=0' -o train.genesis
  genesis-opt resnet.genesis --train sgd,lr=0.1,momentum=0.9 --loss cross_entropy -o train.genesis
  genesis-opt resnet.genesis --train adamw --loss cross_entropy --freeze conv1.weight 'layer1.*' -o train.genesis
  genesis-opt qwen2.genesis --train adamw,clip=1.0 --cast bf16 --keep-f32 'lm_head*' -o train.genesis
  genesis-opt trained.genesis --inference -o model.genesis
  genesis-opt trained.genesis --inference --cast bf16 -o model.genesis
  genesis-opt model.genesis --quantize q8 -o model.q8.genesis
  genesis-opt model.genesis --quantize q4 --data text.txt -o model.q4.genesis
  genesis-opt model.genesis --print-after all --entry decode
  genesis-opt train.genesis --check cpu --entry train_step --size batch=8 --size seq=256
  genesis-opt train.genesis --check cuda --entry train_step --size batch=8 --size seq=256 --memory-budget 4GiB
  genesis-opt train.genesis --check cuda --entry train_step --size batch=64 --size seq=256 --mesh data=8
  genesis-opt train.genesis --memory-budget 4GiB -o small.genesis
  genesis-opt --plan-csv buffers.csv --json)";

struct Flags {
  std::string input, output, train, loss, cast, cache_dtype, plan_csv, print_after, dump, target, adapter,
      save_adapter;
  std::vector<std::string> passes, disable, entries, keep_f32, groups, frozen;
  QuantizeFlags quantize;
  bool list_passes = false, list_ops = false, inference = false, averages = false, merge_lora = false,
       text = false, force = false, expert_load = false, quiet = false;
  CheckFlags check;
  BudgetFlags memory;
  Output out;

  // A written file runs on any device and on ranks, and every session runs the passes of its own device on it again.
  // A graph that is only shown is the one that one device would run.
  bool for_any_device() const { return target == "any" || (target.empty() && !output.empty()); }
  Target device() const { return target_of(target.empty() || target == "any" ? "cpu" : target); }
  bool prints(std::string_view pass) const { return print_after == "all" || print_after == pass; }
  // Returns the groups of parameters, the frozen ones first: the first group that matches counts.
  std::vector<std::string> all_groups() const {
    std::vector<std::string> all;
    if (!frozen.empty()) all.push_back(fmt::format("{}: freeze", fmt::join(frozen, ",")));
    all.insert(all.end(), groups.begin(), groups.end());
    return all;
  }
  // Returns true if the command edits the file. The passes do not run then, unless a flag about passes is given.
  bool edits() const {
    return !train.empty() || !cast.empty() || !cache_dtype.empty() || !quantize.format.empty() || averages ||
           merge_lora || !adapter.empty() || !save_adapter.empty() || memory.is_given();
  }
  bool runs_passes() const { return !edits() || !passes.empty() || !print_after.empty() || !dump.empty(); }
  // Returns true if the command gives a result: a file, or something to look at.
  bool gives_something() const {
    return !output.empty() || !save_adapter.empty() || !print_after.empty() || !dump.empty() || text ||
           out.json;
  }
};

void plan_csv(const Flags& flags) {
  const passes::PlanCsvReport report = passes::plan_csv_file(flags.plan_csv);
  nlohmann::ordered_json json{
      {"height", report.height}, {"lower_bound", report.lower_bound}, {"ratio", report.ratio}};
  // Ids are unique, so they are appended: searching for each one first would take quadratic time.
  auto& offsets =
      (json["offsets"] = nlohmann::ordered_json::object()).get_ref<nlohmann::ordered_json::object_t&>();
  for (const auto& [id, offset] : report.offsets) offsets.emplace_back(id, offset);
  flags.out.print(json, [&] {
    for (const auto& [id, offset] : report.offsets) std::cout << printable(id) << "," << offset << "\n";
    std::cout << fmt::format("# height {}, lower bound {}, ratio {:.4f}\n", report.height, report.lower_bound,
                             report.ratio);
  });
}

std::vector<std::string> chosen_entries(const Flags& flags, const Model& model) {
  if (!flags.entries.empty()) return flags.entries;
  std::vector<std::string> names;
  for (const auto& entry : model.entries()) names.push_back(entry->name());
  return names;
}

// Returns the passes to leave out, and the kernels that the passes must not assume to exist.
Switches switches_of(const Flags& flags, const Target& target) {
  const std::vector<std::string_view> steps = step_switches();
  for (const std::string& name : flags.disable)
    if (std::ranges::find(steps, name) != steps.end())
      fail_usage("--disable {}: it is of planning and running, as --check and genesis-run do it", name);
  for (const std::string& name : flags.disable)
    read_value("--disable " + name, [&] { parse_switches({name}, target); });
  return parse_switches_and_environment({flags.disable.begin(), flags.disable.end()}, target);
}

passes::PipelineOptions pipeline_options(const Flags& flags, const Switches& switches) {
  passes::PipelineOptions options;
  options.disabled.insert(switches.passes.begin(), switches.passes.end());
  if (!flags.passes.empty())
    for (const passes::Pass& pass : passes::all_passes())
      if (std::ranges::find(flags.passes, pass.name) == flags.passes.end())
        options.disabled.insert(std::string(pass.name));
  const auto dump = flags.dump.empty() ? nullptr : passes::dump_to_folder(flags.dump);
  options.on_change = [&flags, dump](int number, const passes::Pass& pass, const Graph& graph) {
    if (dump) dump(number, pass, graph);
    if (flags.prints(pass.name))
      std::cout << fmt::format("// {}. {}: {}\n{}", number, pass.name, pass.why,
                               printable_lines(to_text(graph)));
  };
  return options;
}

// Runs the pipeline of each chosen entry point and replaces the entry point by the result.
void optimize(Model& model, const Flags& flags, std::vector<passes::PassReport>& reports) {
  Target target = flags.device();
  const Switches switches = switches_of(flags, target);
  target.disabled_kernels = switches.runner.disabled_kernels;
  passes::PassContext context;
  if (!flags.for_any_device()) context.target = &target;
  passes::PipelineOptions options = pipeline_options(flags, switches);
  options.reports = &reports;
  if (!flags.output.empty()) options.disabled.merge(passes::session_passes());
  // A written file keeps the states as its author made them. Stored weights of a session are only shown.
  StateStorage storage;
  if (target.prefers_weight_halves && flags.output.empty()) storage = passes::find_stored_weights(model);
  add_parts(model, storage);
  for (const std::string& name : chosen_entries(flags, model)) {
    const Graph& entry = std::as_const(model).entry(name);
    context.storage = passes::updates_stored(entry, storage) ? &storage : nullptr;
    model.replace_entry(passes::run_passes(entry, passes::pipeline_for(entry), context, options));
  }
}

// Checks the values of options before the file is read.
void check_values(const Flags& flags) {
  check_pass_option("--passes", flags.passes);
  if (!flags.print_after.empty() && flags.print_after != "all")
    check_pass_option("--print-after", {flags.print_after});
  if (!flags.target.empty() && flags.target != "any") check_device("--target", flags.target);
  if (!flags.cast.empty()) parse_cast(flags.cast);
  if (!flags.quantize.format.empty()) parse_quantize(flags.quantize.format);
  if (!flags.train.empty()) parse_train(flags.train, flags.all_groups());
  if (!flags.loss.empty()) read_value("--loss " + flags.loss, [&] { passes::parse_loss(flags.loss); });
}

void add_training(Model& model, const Flags& flags, std::vector<passes::PassReport>& reports) {
  passes::TrainOptions train = parse_train(flags.train, flags.all_groups());
  if (!flags.cast.empty())
    train.precision =
        parse_cast(flags.cast) == DType::bf16 ? passes::TrainPrecision::kBf16 : passes::TrainPrecision::kF16;
  train.keep_f32.insert(train.keep_f32.end(), flags.keep_f32.begin(), flags.keep_f32.end());
  passes::PipelineOptions options = pipeline_options(flags, switches_of(flags, flags.device()));
  options.reports = &reports;
  if (!flags.keep_f32.empty() && train.precision == passes::TrainPrecision::kF32)
    fail_usage("--keep-f32 {}: all nodes are f32 without --cast bf16 or f16", flags.keep_f32[0]);
  if (!flags.loss.empty()) {
    passes::add_loss(model, passes::parse_loss(flags.loss));
    jobs::warn_of_export(model);
  }
  jobs::check_has_loss({model, flags.input}, train.entry);
  jobs::check_quantized_training(model);
  if (flags.expert_load) passes::add_expert_load(model, train.entry);
  passes::add_training(model, train, options);
}

// Returns a model with the entry points that do not train, and the states they read.
std::unique_ptr<Model> for_inference(const Model& model) {
  std::set<std::string> names = passes::lasting_entries(model);
  for (const char* loss : {"loss", "loss_packed"}) names.erase(loss);
  if (names.empty()) fail("every entry point trains: there is nothing to keep for inference");
  return passes::extract_entries(model, names);
}

void take_averages(Model& model, const Flags& flags) {
  if (passes::take_averages(model) == 0)
    fail("{} holds no averages of weights: train it with --train OPTIMIZER,ema=0.999", flags.input);
}

void check(const Flags& flags) {
  check_device("--check", flags.check.device);
  check_disabled({flags.disable.begin(), flags.disable.end()}, flags.check.device);
  const std::shared_ptr<const Model> model = open_model(flags.input);
  const std::vector<std::string> entries = chosen_entries(flags, *model);
  flags.memory.check_limits_one_of(entries, *model);
  check_entries(*model, entries, flags.check, {flags.disable, flags.memory.bytes(), flags.out});
}

void report(const Flags& flags, const Model& model, const std::vector<passes::PassReport>& reports) {
  nlohmann::ordered_json json{{"input", flags.input}, {"output", flags.output}};
  for (const auto& entry : model.entries()) {
    json["entries"][entry->name()] = {{"nodes", entry->nodes().size()}};
    if (flags.text) json["entries"][entry->name()]["text"] = to_text(*entry);
  }
  for (const passes::PassReport& row : reports)
    json["passes"].push_back({{"name", row.name},
                              {"changed", row.changed},
                              {"nodes_before", row.nodes_before},
                              {"nodes_after", row.nodes_after},
                              {"seconds", row.seconds}});
  flags.out.print(json, [&] {
    if (flags.text)
      for (const auto& entry : model.entries()) std::cout << printable_lines(to_text(*entry));
    for (const passes::PassReport& row : reports)
      if (row.changed)
        std::cerr << fmt::format("{}: {} -> {} nodes\n", row.name, row.nodes_before, row.nodes_after);
    if (!flags.output.empty()) std::cout << "saved " << printable(flags.output) << "\n";
  });
}

// Warns of options that had no effect.
void warn(const Flags& flags, const std::vector<passes::PassReport>& reports) {
  if (!flags.print_after.empty() &&
      std::ranges::none_of(reports, [&](const auto& row) { return row.changed && flags.prints(row.name); }))
    log_warning("--print-after {}: nothing was changed, so there is nothing to print", flags.print_after);
}

// Checks the output folder of --save-adapter before the model is read.
void check_adapter_folder(const Flags& flags) {
  std::error_code error;
  if (!flags.force && std::filesystem::is_directory(flags.save_adapter, error) &&
      !std::filesystem::is_empty(flags.save_adapter, error))
    fail("the folder '{}' is there already: name another one, or give --force to replace an older adapter",
         flags.save_adapter);
  jobs::check_can_make_folder(flags.save_adapter);
}

// Checks that every given option has an effect and that the command gives a result.
void check_rewrite(const Flags& flags, const Command& app) {
  const bool whole_file = !flags.runs_passes();
  check_rules(app, {{true, {"--size", "--mesh", "--zero", "--chip", "--links"}, "without --check DEVICE"}});
  if (!flags.train.empty() && flags.inference)
    fail_usage("--train adds what --inference leaves out: give one of them");
  if (!flags.groups.empty() && flags.train.empty())
    fail_usage("--group '{}': it goes with --train OPTIMIZER", flags.groups[0]);
  if (flags.out.json && !flags.print_after.empty())
    fail_usage("--print-after does nothing with --json: write the graphs to a folder with --dump DIR");
  check_rules(
      app, {{whole_file,
             {"--entry", "--target"},
             "with --train, --cast, --quantize, --cache-dtype or --memory-budget, which take the whole file"},
            {whole_file && flags.train.empty(),
             {"--disable"},
             "with --cast, --quantize, --cache-dtype or --memory-budget alone, which run no passes"},
            {flags.train.empty(), {"--freeze", "--loss", "--expert-load"}, "without --train OPTIMIZER"},
            {flags.save_adapter.empty(), {"--force"}, "without --save-adapter FOLDER"}});
  check_adapter_folder(flags);
  flags.quantize.check(app);
  if (!flags.gives_something())
    fail_usage(
        "nothing would come of this: save the result with -o FILE, look at it with --text, --json, "
        "--print-after PASS or --dump DIR, or see what a run would take with --check DEVICE");
}

// Makes the edits that come before casting and optimizing.
void edit(std::unique_ptr<Model>& model, const Flags& flags, std::vector<passes::PassReport>& reports) {
  // Reads the adapters here, so that an error in their description names the file.
  with_context([&] { passes::lora_of(*model); }, [&] { return flags.input; });
  if (!flags.adapter.empty()) models::hugging_face::load_adapter(*model, flags.adapter);
  if (flags.averages) take_averages(*model, flags);
  if (!flags.train.empty()) {
    if (model->find_entry(passes::parse_train_options(flags.train).name)) model = to_train_anew(*model);
    add_training(*model, flags, reports);
  }
  // An adapter may be part of the weights already.
  const bool is_merged = !flags.adapter.empty() && !passes::lora_of(*model);
  if (flags.merge_lora && !is_merged) model = passes::merge_lora(*model);
  if (!flags.save_adapter.empty())
    models::hugging_face::save_adapter(*model, flags.save_adapter, "", flags.force);
  if (flags.inference) model = for_inference(*model);
}

// Corrects `--check FILE`, in which the command-line parser takes the file for the device.
void tell_file_from_device(Flags& flags) {
  if (flags.input.empty() && std::filesystem::exists(flags.check.device))
    flags.input = std::exchange(flags.check.device, "auto");
}

// Answers requests that write no new model. Returns false if there was none.
bool answers_question(const Flags& flags, const Command& app) {
  const auto all_but = OptionRule::kAllBut;
  const bool plans = !flags.plan_csv.empty(), checks = !flags.input.empty() && !flags.check.device.empty();
  check_rules(
      app,
      {{flags.list_passes, {"--list-passes", "--json"}, "with --list-passes", all_but},
       {flags.list_ops, {"--list-ops", "--json"}, "with --list-ops", all_but},
       {plans, {"--plan-csv", "--json"}, "with --plan-csv, which plans the buffers of the CSV file", all_but},
       {checks,
        {"input", "--check", "--entry", "--size", "--mesh", "--zero", "--chip", "--links", "--memory-budget",
         "--remat", "--disable", "--json"},
        "with --check, which changes nothing",
        all_but}});
  if (flags.list_passes) {
    list_passes(flags.out);
  } else if (flags.list_ops) {
    list_ops(flags.out);
  } else if (plans) {
    plan_csv(flags);
  } else if (flags.input.empty()) {
    const std::string& device = flags.check.device;
    fail_missing((device.empty() ? "" : "--check " + device + " names the device; ") + "a model file");
  } else if (checks) {
    check(flags);
  } else {
    return false;
  }
  return true;
}

void run(Flags& flags, const Command& app) {
  tell_file_from_device(flags);
  if (answers_question(flags, app)) return;
  check_rewrite(flags, app);
  check_values(flags);
  switches_of(flags, flags.device());  // throws for unknown names
  if (!flags.keep_f32.empty() && flags.cast.empty() && flags.train.empty())
    fail_usage("--keep-f32 {}: it goes with --cast bf16 or f16", flags.keep_f32[0]);
  check_can_write(flags.output);
  jobs::check_replaces_model("-o", flags.output);
  // Verifies every byte: damaged data must not be written to a new file whose hash says that it is sound.
  auto progress = std::make_unique<FileProgress>(flags.quiet);
  std::unique_ptr<Model> model =
      open_model(flags.input, {.verify = Verify::kFull, .progress = progress->hook()});
  std::vector<passes::PassReport> reports;
  edit(model, flags, reports);
  if (!flags.cast.empty() && flags.train.empty()) {
    progress->update("casting to " + flags.cast, 0, 0);
    model = passes::cast_precision(*model, parse_cast(flags.cast), flags.keep_f32);
  }
  if (!flags.quantize.format.empty()) quantize(*model, flags.input, flags.quantize);
  if (!flags.cache_dtype.empty())
    with_context([&] { model = passes::with_quantized_cache(*model); }, [&] { return flags.input; });
  if (flags.runs_passes()) optimize(*model, flags, reports);
  if (const auto budget = flags.memory.bytes()) model->metadata["memory_budget"] = std::to_string(*budget);
  if (!flags.output.empty()) save_model(*model, flags.output, {.progress = progress->hook()});
  progress.reset();  // clears the progress line before others are printed
  report(flags, *model, reports);
  warn(flags, reports);
}

// Adds the options that change the model.
void add_model_flags(Command& app, Flags& flags) {
  app.add_option("input", flags.input, kModelName);
  app.add_option("-o,--output", flags.output, "file to write");
  app.add_option("--train", flags.train,
                 "add the entry point train_step, instead of one that is there: OPTIMIZER,key=value,... "
                 "(sgd, adam, adamw, "
                 "lion, muon)");
  app.add_option("--loss", flags.loss,
                 "with --train, for a model without a loss: LOSS or LOSS=OUTPUT; adds the entry point loss, "
                 "which is forward with an "
                 "input target (cross_entropy, mse, l1, bce_with_logits, bce, ctc)");
  app.add_option("--group", flags.groups,
                 "with --train: 'PATTERN,...: SETTING,...', for parameters of these names lr=FACTORx, "
                 "weight_decay=NUMBER, optimizer=muon or adamw (of Muon), or freeze; may be given again, the "
                 "first that matches a parameter counts")
      ->take_all();
  app.add_option(
         "--freeze", flags.frozen,
         "with --train: parameters of these names are not trained (* any text, ? any character), such as "
         "'layer1.*'")
      ->take_all();
  app.add_flag("--expert-load", flags.expert_load,
               "with --train: the step also returns the share of each expert in the tokens of its layer, for "
               "--metrics and the page");
  app.add_option("--cast", flags.cast,
                 "compute in bf16 or f16: with --train the training step, whose weights stay f32; without "
                 "it all entry points, weights included");
  app.add_option("--keep-f32", flags.keep_f32,
                 "with --cast: nodes of these names stay f32 (* any text, ? any character)")
      ->take_all();
  add_cache_dtype(app, flags.cache_dtype,
                  "the KV cache of a language model keeps keys and values in 8 bits, in about half the bytes "
                  "of bf16");
  app.add_option("--adapter", flags.adapter, "add the LoRA adapter in this folder, as PEFT saves one");
  app.add_option("--save-adapter", flags.save_adapter,
                 "write the model's LoRA adapter to this folder, as PEFT saves one");
  app.add_flag("--force", flags.force, "with --save-adapter: replace an older adapter in its folder");
  app.add_flag("--merge-lora", flags.merge_lora, "add the LoRA adapter to the weights, and remove it");
  app.add_flag("--averages", flags.averages,
               "give the weights the values of their averages (training with ema=0.999)");
  flags.quantize.add_to(app);
  app.add_flag("--inference", flags.inference,
               "keep only what inference needs: no training entry points, no optimizer states");
}

// Adds the options that choose passes and show their effect.
void add_pass_flags(Command& app, Flags& flags) {
  app.add_option("--entry", flags.entries, "entry points to work on; all when not given")->take_all();
  app.add_option("--passes", flags.passes, "run only these passes")->delimiter(',');
  app.add_option("--disable", flags.disable,
                 "leave out these passes, and kernels as kernel:NAME; with --check also steps of planning")
      ->delimiter(',');
  app.add_flag("--list-passes", flags.list_passes, "list the passes and why each is there");
  app.add_flag("--list-ops", flags.list_ops, "list the ops as a Markdown table");
  app.add_option("--print-after", flags.print_after, "print the graph after this pass, or 'all'");
  app.add_flag("--text", flags.text, "print the resulting graphs");
  app.add_option("--dump", flags.dump, "write the graph after every pass that changed it to this folder");
  app.add_option("--target", flags.target,
                 "device that the passes rewrite for: cpu, cuda, auto, or any, which suits every device, "
                 "since a session runs the passes of its own again; default: any with -o, else cpu");
  flags.check.add_to(app);
  app.add_option("--plan-csv", flags.plan_csv, "plan the buffers given as id,lower,upper,size lines");
  app.add_flag("--quiet", flags.quiet, "print no progress");
  flags.memory.add_to(app);
  flags.out.add_to(app);
}

}  // namespace
}  // namespace genesis::tools

int main(int argc, char** argv) {
  using namespace genesis::tools;
  Flags flags;
  return run_tool(argc, argv, "genesis-opt", "Rewrites .genesis files: training, optimization, memory plans.",
                  kExamples, [&](Command& app) {
                    add_model_flags(app, flags);
                    add_pass_flags(app, flags);
                    app.callback([&] { run(flags, app); });
                  });
}
