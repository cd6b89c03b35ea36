#include "tools/chat/line_editor.h"

#include <fmt/core.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <deque>
#include <exception>
#include <system_error>
#include <vector>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"
#include "schema/messages/log.h"
#include "tools/chat/quiet_terminal.h"
#include "tools/chat/typed_keys.h"

namespace genesis::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kKeptMessages = 1000;
constexpr size_t kMaxTyped = 1000;        // bytes of a paste that is shown as if it were typed
constexpr size_t kMaxRemembered = 65536;  // bytes of a message that the history keeps
constexpr int kSettleMilliseconds = 50;
constexpr wchar_t kQuoteNext = 0x16;  // Ctrl-V: the next character is inserted as it is, a line feed too
constexpr char kUnseen = '\1';        // encloses a part of the prompt that takes no column
constexpr const char* kMarkPastes = "\x1b[?2004h";

volatile std::sig_atomic_t window_changed = 0, continued = 0;

bool knows_codes() {
  const char* terminal = std::getenv("TERM");
  return terminal && *terminal && std::strcmp(terminal, "dumb") != 0;
}

// Chooses a UTF-8 locale, since libedit reads and shows characters in the encoding of the locale.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Returns the prompt with its color codes marked as taking no column. libedit shows a code only if a visible
// character follows it.
std::string marked_prompt(const std::string& prompt) {
  std::string marked;
  for (size_t i = 0; i < prompt.size(); ++i) {
    const bool begins = prompt[i] == '\x1b';
    if (begins) marked += kUnseen;
    marked += prompt[i];
    if (!begins) continue;
    while (++i < prompt.size() && prompt[i] != 'm') marked += prompt[i];
    marked += "m";
    marked += kUnseen;
  }
  return marked;
}

// Keeps messages of earlier chats in a file that only the user may read.
class MessageHistory {
 public:
  explicit MessageHistory(fs::path file) : file_(std::move(file)), history_(history_init()) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, kKeptMessages);
    history(history_, &event, H_SETUNIQUE, 1);
    std::error_code error;
    if (fs::is_regular_file(file_, error)) history(history_, &event, H_LOAD, file_.c_str());
  }
  ~MessageHistory() { history_end(history_); }
  MessageHistory(const MessageHistory&) = delete;
  MessageHistory& operator=(const MessageHistory&) = delete;

  History* get() const { return history_; }

  void add(const std::string& message) {
    if (message.empty() || message.size() > kMaxRemembered) return;
    HistEvent event;
    history(history_, &event, H_ENTER, message.c_str());
    if (!file_.empty()) save();
  }

 private:
  void save() {
    std::error_code error;
    fs::create_directories(file_.parent_path(), error);
    const fs::path written = file_.string() + fmt::format(".{}", getpid());
    HistEvent event;
    errno = 0;
    if (!error && history(history_, &event, H_SAVE, written.c_str()) >= 0)
      fs::rename(written, file_, error);
    else if (!error)
      error = {errno != 0 ? errno : EIO, std::generic_category()};
    if (!error) return;
    std::error_code ignored;
    fs::remove(written, ignored);
    log_warning("later chats will not have this one's messages in their history: cannot write '{}': {}",
                file_.string(), error.message());
    file_.clear();
  }

  fs::path file_;  // empty: no file
  History* history_;
};

// Notes SIGWINCH and SIGCONT for the editor while it exists.
class WindowSignals {
 public:
  WindowSignals() {
    struct sigaction note {};
    note.sa_handler = [](int number) { (number == SIGCONT ? continued : window_changed) = 1; };
    sigaction(SIGWINCH, &note, &before_[0]);
    sigaction(SIGCONT, &note, &before_[1]);
  }
  ~WindowSignals() {
    sigaction(SIGWINCH, &before_[0], nullptr);
    sigaction(SIGCONT, &before_[1], nullptr);
  }
  WindowSignals(const WindowSignals&) = delete;
  WindowSignals& operator=(const WindowSignals&) = delete;

 private:
  std::array<struct sigaction, 2> before_{};
};

class LineEditor : public LineReader {
 public:
  explicit LineEditor(const fs::path& history) : history_(history) {
    use_utf8();
    editor_ = el_init("genesis-run", stdin, stderr, stderr);
    if (!editor_) fail("the line editor cannot use this terminal: {}", std::strerror(errno));
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_GETCFN, &LineEditor::read_character);
    el_set(editor_, EL_PROMPT_ESC, &LineEditor::prompt_of, kUnseen);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, ::history, history_.get());
    bind_keys();
    el_source(editor_, nullptr);  // the user's ~/.editrc
  }
  ~LineEditor() override { el_end(editor_); }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  Event next(const InterruptCount& interrupts, const std::string& prompt, std::string& line,
             bool returns_often) override;
  void remember(const std::string& message) override { history_.add(message); }

 private:
  static LineEditor& of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt_.data(); }
  // Returns 1 for a character, 0 at the end of the input, -1 for an interrupt or an error. Exceptions must not pass
  // through libedit, so they are kept in `error_`.
  static int read_character(EditLine* editor, wchar_t* character) {
    LineEditor& self = of(editor);
    try {
      return self.read_one(*character);
    } catch (...) {
      self.error_ = std::current_exception();
      return -1;
    }
  }

  void bind_keys();
  int read_one(wchar_t& character);
  void wait();
  void take(const Key& key);
  void type(std::string_view text);
  std::string with_pastes(std::string_view line) const;
  std::string typed_so_far() const;

  const bool has_codes_ = knows_codes();
  QuietTerminal terminal_{has_codes_};
  WindowSignals signals_;
  MessageHistory history_;
  EditLine* editor_ = nullptr;
  std::string prompt_;
  const InterruptCount* interrupts_ = nullptr;
  int count_before_ = 0;
  bool is_interrupted_ = false, at_end_ = false;
  std::exception_ptr error_;
  TypedKeys keys_;
  std::deque<wchar_t> characters_;                           // decoded characters that libedit has not read
  std::vector<std::pair<std::string, std::string>> pastes_;  // placeholder and text of each paste
};

void LineEditor::bind_keys() {
  const std::pair<const char*, const char*> keys[] = {
      {"^R", "em-inc-search-prev"}, {"\\e[3~", "ed-delete-next-char"}, {"\\e[1~", "ed-move-to-beg"},
      {"\\e[4~", "ed-move-to-end"}, {"\\e[H", "ed-move-to-beg"},       {"\\e[F", "ed-move-to-end"},
      {"\\eOH", "ed-move-to-beg"},  {"\\eOF", "ed-move-to-end"},       {"\\e[1;5D", "ed-prev-word"},
      {"\\e[1;5C", "em-next-word"}, {"\\e[1;3D", "ed-prev-word"},      {"\\e[1;3C", "em-next-word"}};
  for (const auto& [key, command] : keys) el_set(editor_, EL_BIND, key, command, nullptr);
}

LineReader::Event LineEditor::next(const InterruptCount& interrupts, const std::string& prompt,
                                   std::string& line, bool /*returns_often*/) {
  prompt_ = marked_prompt(prompt);
  interrupts_ = &interrupts;
  count_before_ = interrupts.count();
  is_interrupted_ = false;
  pastes_.clear();
  line.clear();
  if (has_codes_) std::fputs(kMarkPastes, stderr);
  int count = 0;
  const char* read = el_gets(editor_, &count);
  if (has_codes_) std::fputs(kPlainAgain, stderr);
  std::fflush(stderr);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (is_interrupted_) line = typed_so_far();
  terminal_.resume();
  if (is_interrupted_) return Event::kInterrupt;
  if (!read || count <= 0) return Event::kEnd;
  std::string_view typed(read, static_cast<size_t>(count));
  if (typed.ends_with('\n')) typed.remove_suffix(1);
  line = with_pastes(typed);
  return Event::kLine;
}

std::string LineEditor::typed_so_far() const {
  const LineInfo* info = el_line(editor_);
  return {info->buffer, static_cast<size_t>(info->lastchar - info->buffer)};
}

int LineEditor::read_one(wchar_t& character) {
  while (characters_.empty()) {
    if (const auto key = keys_.next()) {
      take(*key);
      continue;
    }
    is_interrupted_ = interrupts_->count() != count_before_;
    if (is_interrupted_) return -1;
    if (at_end_) return 0;
    wait();
  }
  character = characters_.front();
  characters_.pop_front();
  return 1;
}

void LineEditor::wait() {
  if (std::exchange(window_changed, 0)) el_resize(editor_);
  if (std::exchange(continued, 0)) {
    el_set(editor_, EL_PREP_TERM, 0);
    el_set(editor_, EL_PREP_TERM, 1);
    el_set(editor_, EL_REFRESH);
  }
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&input, 1, keys_.has_bytes() ? kSettleMilliseconds : kPollMilliseconds);
  if (ready == 0) keys_.settle();
  if (ready <= 0) return;
  std::array<char, 1 << 16> bytes;
  const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  at_end_ = got <= 0;
  if (got > 0) keys_.add({bytes.data(), static_cast<size_t>(got)});
}

// Handles one key or paste. A short paste of one line is inserted as text. A longer one is kept in `pastes_` and
// shown as a placeholder, because the editor shows no more lines than the terminal has.
void LineEditor::take(const Key& key) {
  if (key.kind == Key::Kind::kCharacter) return characters_.push_back(static_cast<wchar_t>(key.character));
  if (key.kind == Key::Kind::kNewLine) {
    characters_.insert(characters_.end(), {kQuoteNext, L'\n'});
    return;
  }
  std::string text = key.paste;
  if (text.ends_with('\n') && text.find('\n') + 1 == text.size()) text.pop_back();
  const bool has_controls = std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  if (text.size() <= kMaxTyped && !has_controls) return type(text);
  const auto lines = std::ranges::count(text, '\n') + (text.ends_with('\n') ? 0 : 1);
  pastes_.emplace_back(fmt::format("[paste {}: {} line{}, {} bytes]", pastes_.size() + 1, lines,
                                   lines == 1 ? "" : "s", text.size()),
                       text);
  type(pastes_.back().first);
}

void LineEditor::type(std::string_view text) {
  while (!text.empty()) {
    const utf8::Character next = utf8::first_character(text);
    characters_.push_back(static_cast<wchar_t>(next.code));
    text.remove_prefix(next.bytes);
  }
}

// Returns the line with its placeholders replaced by the pasted texts. A placeholder that the user has edited stays
// as text.
std::string LineEditor::with_pastes(std::string_view line) const {
  std::string text;
  while (!line.empty()) {
    const auto paste =
        std::ranges::find_if(pastes_, [&](const auto& p) { return line.starts_with(p.first); });
    text += paste == pastes_.end() ? line.substr(0, 1) : std::string_view(paste->second);
    line.remove_prefix(paste == pastes_.end() ? 1 : paste->first.size());
  }
  return text;
}

}  // namespace

bool has_line_editor() { return true; }

std::unique_ptr<LineReader> make_line_editor(const fs::path& history) {
  return std::make_unique<LineEditor>(history);
}

}  // namespace genesis::tools
