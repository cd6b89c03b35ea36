#include "tools/chat/chat_loop.h"

#include <fmt/core.h>
#include <unistd.h>

#include <iostream>

#include "models/jobs/output_files.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/read_file.h"
#include "tools/chat/line_editor.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/text/answer_json.h"
#include "tools/text/text_writer.h"

namespace genesis::tools {
namespace {

constexpr uint64_t kMaxFile = 16 << 20;  // bytes of a message or a conversation

nlohmann::ordered_json as_json(const chat::Dialogue::Answer& answer, bool interrupted) {
  const text::GenerateResult& result = answer.result;
  nlohmann::ordered_json json = {
      {"text", result.text},
      {"stop", interrupted ? "interrupted" : name_of(result.stop_reason)},
      {"tokens", result.tokens},
      {"prompt_tokens", answer.prompt_tokens},
      {"reused_tokens", answer.reused_tokens},
      {"compile_seconds", result.compile_seconds},
      {"prefill_seconds", result.prefill_seconds},
      {"decode_seconds", result.decode_seconds},
      {"decode_tokens_per_second", per_second(result.decoded, result.decode_seconds)}};
  json.update(drafts_json(result));
  return json;
}

bool first_has_terminal(World& world) {
  return world.agreed_by_first(isatty(STDIN_FILENO) && isatty(STDERR_FILENO));
}

// Returns the line editor for a single rank at a terminal. Several ranks need LineInput: it returns while it waits,
// so that rank 0 can keep in touch with the others, which a line editor does not allow.
std::unique_ptr<LineReader> make_reader(bool is_terminal, const World& world) {
  if (is_terminal && world.size() == 1 && has_line_editor()) return make_line_editor(chat_history_file());
  return std::make_unique<LineInput>();
}

}  // namespace

ChatLoop::ChatLoop(chat::Dialogue& dialogue, World& world, ChatLoopOptions options)
    : dialogue_(dialogue),
      world_(world),
      options_(std::move(options)),
      is_terminal_(first_has_terminal(world)),
      shows_more_(is_terminal_ && writes_to_terminal() && !options_.out.json && !options_.is_quiet),
      style_(STDERR_FILENO),
      commands_(dialogue, options_.sources, files()),
      lines_(is_terminal_),
      reader_(make_reader(is_terminal_, world)) {}

bool ChatLoop::run() {
  if (shows_more_) std::cerr << style_.dim(options_.banner) << "\n";
  if (is_terminal_ && !options_.is_quiet) std::cerr << "/help lists the commands\n";
  for (std::string line; !done_;) {
    switch (next(line)) {
      case LineReader::Event::kWaiting:
        break;
      case LineReader::Event::kEnd:
        take_end();
        break;
      case LineReader::Event::kInterrupt:
        at_prompt_interrupted(line);
        break;
      case LineReader::Event::kLine:
        take(line);
        break;
    }
  }
  // The input also ends if the launcher has lost a rank. Meeting all ranks once more finds out whether one is
  // missing.
  world_.said_by_first("");
  return failures_ == 0 || is_terminal_;
}

std::string ChatLoop::prompt() const {
  if (!is_terminal_) return "";
  return style_.begin_green() + (lines_.has_begun() ? ". " : "> ");
}

// Returns the next event of rank 0's input, on all ranks. Rank 0 may wait for long, so it sends kWaiting meanwhile.
LineReader::Event ChatLoop::next(std::string& line) {
  std::string said;
  if (world_.is_first()) {
    interrupts_before_ = interrupts_.count();
    const LineReader::Event event = reader_->next(interrupts_, prompt(), line, world_.size() > 1);
    if (is_terminal_ && event != LineReader::Event::kWaiting) std::cerr << style_.end_green() << std::flush;
    said = std::to_string(static_cast<int>(event)) + line;
  }
  said = world_.said_by_first(said);
  line = said.substr(1);
  return static_cast<LineReader::Event>(said[0] - '0');
}

// Returns true if rank 0 was interrupted. With several ranks it asks only at every kPieces-th piece of text, because
// the ranks have to meet for it.
bool ChatLoop::is_interrupted() {
  constexpr int kPieces = 8;
  if (world_.size() > 1 && ++pieces_ % kPieces != 0) return false;
  return world_.agreed_by_first(interrupts_.count() > interrupts_before_);
}

void ChatLoop::at_prompt_interrupted(const std::string& discarded) {
  const bool had_text = !discarded.empty() || lines_.has_begun();
  lines_.clear();
  std::cerr << "\n";
  done_ = world_.agreed_by_first(!had_text && interrupts_.count() > 1);
  if (had_text)
    forget_interrupts();
  else if (!done_)
    std::cerr << "Ctrl-C again leaves\n";
}

void ChatLoop::forget_interrupts() {
  interrupts_.reset();
  interrupts_before_ = 0;
}

// A Ctrl-C right behind the line is meant for its answer, so interrupts are forgotten only afterwards.
void ChatLoop::take(const std::string& line) {
  attempt([&] {
    const auto message = lines_.add(line);
    if (!message) return;
    reader_->remember(message->text);
    answer_or_do(*message);
  });
  forget_interrupts();
}

void ChatLoop::take_end() {
  if (is_terminal_) std::cerr << "\n";
  done_ = true;
  attempt([&] {
    if (const auto message = lines_.finish()) answer_or_do(*message);
  });
}

void ChatLoop::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    ++failures_;
    std::cerr << style_.red("genesis-run: " + error_line(error.message())) << "\n";
  }
}

void ChatLoop::answer_or_do(const Message& message) {
  const std::string& text = message.text;
  if (text.empty()) return;
  if (message.is_quoted || text[0] != '/') return answer(text);
  if (text.starts_with("//")) return answer(text.substr(1));
  command(text);
}

void ChatLoop::command(const std::string& line) {
  const CommandResult result = commands_.run(line);
  switch (result.next) {
    case NextStep::kListen:
      return;
    case NextStep::kAnswerMessage:
      return answer(result.message);
    case NextStep::kAnswerAgain:
      return answer_again();
    case NextStep::kAnswerLast:
      return write_answer([&](const auto& on_piece) { return dialogue_.answer_again(on_piece); });
    case NextStep::kLeave:
      done_ = true;
  }
}

void ChatLoop::answer(const std::string& message) {
  regenerated_ = 0;
  write_answer([&](const auto& on_piece) { return dialogue_.reply(message, on_piece); });
}

// Answers the last message again. The seed decides the answer, so each repetition uses another seed.
void ChatLoop::answer_again() {
  const text::GenerateOptions before = dialogue_.generate_options();
  text::GenerateOptions options = before;
  options.seed += ++regenerated_;
  dialogue_.set_generate_options(options);
  const auto restore = [&](chat::Dialogue* dialogue) { dialogue->set_generate_options(before); };
  const std::unique_ptr<chat::Dialogue, decltype(restore)> at_end(&dialogue_, restore);
  write_answer([&](const auto& on_piece) { return dialogue_.answer_again(on_piece); });
}

void ChatLoop::write_answer(const Reply& reply) {
  bool interrupted = false;
  pieces_ = 0;
  chat::Dialogue::Answer answer;
  {
    TextWriter writer;
    options_.around_answer([&] {
      answer = reply([&](const text::Piece& piece) {
        if (!options_.out.json) writer.write(piece.text);
        return !(interrupted = is_interrupted());
      });
    });
    if (!options_.out.json) writer.write("\n");
  }
  if (options_.out.json) options_.out.print(as_json(answer, interrupted), [] {});
  if (shows_more_) print_numbers(answer.result, interrupted);
  forget_interrupts();
  if (answer.result.stop_reason == text::StopReason::kCacheFull)
    std::cerr << "the context is full: /reset begins a new conversation\n";
}

void ChatLoop::print_numbers(const text::GenerateResult& result, bool interrupted) const {
  const double rate = per_second(result.decoded, result.decode_seconds);
  std::cerr << style_.dim(fmt::format(
                   "[{}{} token{}{}{}; first after {:.2f} s]", interrupted ? "stopped: " : "",
                   result.tokens.size(), result.tokens.size() == 1 ? "" : "s",
                   rate > 0 ? fmt::format(", {:.1f} tokens/s", rate) : "",
                   drafts_text(std::ssize(result.tokens), result.steps, result.drafted, result.accepted),
                   result.compile_seconds + result.prefill_seconds))
            << "\n";
}

ChatCommands::Files ChatLoop::files() {
  return {.read =
              [this](const std::string& path) {
                // An Error of the first rank has to be thrown on all ranks, so it is sent in place of the file.
                std::string said;
                if (world_.is_first()) try {
                    said = "+" + read_whole_file(path, kMaxFile);
                  } catch (const Error& error) {
                    said = "-" + error.message();
                  }
                said = world_.said_by_first(said);
                if (said[0] == '-') fail("{}", said.substr(1));
                return said.substr(1);
              },
          .write =
              [this](const std::string& path, const std::string& text) {
                std::string problem;
                if (world_.is_first()) try {
                    jobs::check_replaces_conversation("/save", path);
                    write_file_atomically(path, text);
                  } catch (const Error& error) {
                    problem = error.message();
                  }
                if (problem = world_.said_by_first(problem); !problem.empty()) fail("{}", problem);
              }};
}

}  // namespace genesis::tools
