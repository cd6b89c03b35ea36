// Tests genesis-run chat as a user sees it at a terminal.
#include <algorithm>

#include "tests/tools/chat/chat_fixture.h"
#include "tests/tools/chat/terminal.h"

namespace genesis::testing {
namespace {

class ChatTerminal : public Chat {
 protected:
  ChatTerminal() {
    write_text(path("folder/generation_config.json"),
               R"({"do_sample": true, "temperature": 0.8, "top_k": 5})");
  }
  void SetUp() override {
    if (!GENESIS_HAVE_EDITOR) GTEST_SKIP() << "this build has no libedit";
  }
  Words command(const Words& more = {"--max-tokens", "4"}) const {
    return Words{tool_path("genesis-run"), "chat", path("m.genesis"), "--tokenizer", path("folder")} + more;
  }
  Words environment(const Words& more = {}) const {
    return Words{"TERM=xterm", "XDG_STATE_HOME=" + path("state"), "NO_COLOR=", "LANG=C.UTF-8",
                 "EDITRC=/dev/null"} +
           more;
  }
  // Returns the user's messages that /save writes.
  std::vector<std::string> asked(Terminal& terminal) {
    fs::remove(path("talk.jsonl"));
    terminal.type("/save " + path("talk.jsonl") + "\r");
    terminal.wait_for("saved ");
    terminal.wait_for("> ");
    std::vector<std::string> messages;
    const nlohmann::json talk = parse_json_text(read_text(path("talk.jsonl")));
    for (const auto& message : talk["messages"])
      if (message["role"] == "user") messages.push_back(message["content"]);
    return messages;
  }
  static void leave(Terminal& terminal) {
    terminal.type("\x04");
    EXPECT_EQ(terminal.wait(), 0);
  }
};

TEST_F(ChatTerminal, BeginsWithWhatItRunsAndTellsTheSpeed) {
  Terminal terminal(command({"--max-tokens", "4", "--seed", "7", "--system", "Be brief."}), environment());
  const std::string banner = terminal.wait_for("> ");
  for (const char* part : {"qwen2, ", " parameters in f32", "m.genesis", "tokenizer_config.json",
                           "256 tokens", "temperature 0.8, top_k 5 (", "generation_config.json",
                           "seed 7 (the command line)", "\"Be brief.\"", "/help lists the commands"})
    EXPECT_NE(banner.find(part), std::string::npos) << part << " in " << banner;
  terminal.type("In the\r");
  terminal.wait_for(" token");
  terminal.wait_for("first after ");
  terminal.wait_for("\x1b[1;32m> ");
  leave(terminal);
}

TEST_F(ChatTerminal, QuietAndJsonSayLess) {
  for (const Words& flags : {Words{"--quiet"}, Words{"--json"}}) {
    Terminal terminal(command(flags + Words{"--max-tokens", "4"}), environment({"NO_COLOR=1"}));
    terminal.wait_for("> ");
    terminal.type("In the\r");
    terminal.wait_for("> ");
    leave(terminal);
    for (const char* part : {"parameters in", "tokens/s", "\x1b[1;32m", "\x1b[2m"})
      EXPECT_EQ(terminal.seen().find(part), std::string::npos) << part << " in " << terminal.seen();
  }
}

TEST_F(ChatTerminal, LinesAreEdited) {
  Terminal terminal(command(), environment());
  terminal.wait_for("> ");
  terminal.type(
      "bc\x1b[D\x1b[D"
      "a\r");  // cursor left twice
  terminal.wait_for("first after ");
  terminal.wait_for("> ");
  terminal.type("\x1b[A\x7f\r");  // the last message again, without its end
  terminal.wait_for("first after ");
  terminal.wait_for("> ");
  terminal.type("größe 你\x7f好\r");
  terminal.wait_for("first after ");
  terminal.wait_for("> ");
  EXPECT_EQ(asked(terminal), (Words{"abc", "ab", "größe 好"}));
  leave(terminal);
}

TEST_F(ChatTerminal, MessagesHaveSeveralLinesAndAnyLength) {
  // The model's context is shorter than these messages, so the template cuts them.
  write_text(path("short.jinja"), "{{ messages[-1].content[:20] }}");
  Terminal terminal(command({"--max-tokens", "1", "--template", path("short.jinja")}), environment());
  terminal.wait_for("> ");
  const std::string large(20000, 'x'), lines = "line 1\nline 2 \\\n/line 3";
  const Words typed = {"one\\\rtwo\r", "\"\"\"\rthree\r\rfour\r\"\"\"\r", "\x1b[200~" + lines + "\x1b[201~\r",
                       "\x1b[200~" + large + "\n" + large + "\x1b[201~ and more\r", large + "\r"};
  for (const std::string& keys : typed) {
    terminal.type(keys);
    terminal.wait_for("first after ");
    terminal.wait_for("> ");
  }
  EXPECT_EQ(asked(terminal),
            (Words{"one\ntwo", "three\n\nfour", lines, large + "\n" + large + " and more", large}));
  leave(terminal);
}

TEST_F(ChatTerminal, WhatIsTypedDuringAnAnswerIsRead) {
  write_text(path("short.jinja"), "{{ messages[-1].content[:20] }}");
  Terminal terminal(command({"--max-tokens", "1", "--template", path("short.jinja")}), environment());
  terminal.wait_for("> ");
  const std::string large(9000, 'x');
  terminal.type("a\rb\r" + large + "\r");
  for (int i = 0; i < 3; ++i) terminal.wait_for("first after ");
  terminal.wait_for("> ");
  EXPECT_EQ(asked(terminal), (Words{"a", "b", large}));
  leave(terminal);
}

TEST_F(ChatTerminal, TheHistoryIsKept) {
  const auto ask = [&](const std::string& keys, const Words& more) {
    Terminal terminal(command(), environment(more));
    terminal.wait_for("> ");
    terminal.type(keys);
    terminal.wait_for("first after ");
    terminal.wait_for("> ");
    const Words messages = asked(terminal);
    leave(terminal);
    return messages;
  };
  EXPECT_EQ(ask("In the\r", {}), Words{"In the"});
  const fs::path file = path("state/genesis/chat_history");
  EXPECT_EQ(fs::status(file).permissions() & fs::perms::all, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(ask("\x1b[A\x1b[A beginning\r", {}), Words{"In the beginning"});  // the one before /save
  // Without a place for its history, chat works as usual.
  EXPECT_EQ(ask("a\r", {"XDG_STATE_HOME=", "HOME="}), Words{"a"});
  write_text(path("file"), "");
  EXPECT_EQ(ask("a\r", {"XDG_STATE_HOME=" + path("file")}), Words{"a"});
}

TEST_F(ChatTerminal, CtrlCStopsAnAnswerAndLeavesTheNumbers) {
  model("long.genesis", "60000");
  Terminal terminal({tool_path("genesis-run"), "chat", path("long.genesis"), "--tokenizer", path("folder"),
                     "--max-tokens", "50000", "--temperature", "0"},
                    environment());
  terminal.wait_for("> ");
  terminal.type("a\r");
  terminal.wait_for("\n");
  for (int i = 0; i < 3; ++i) terminal.wait_for_more();  // the answer has begun
  terminal.type("\x03");
  terminal.wait_for("[stopped: ");
  terminal.wait_for("first after ");
  terminal.wait_for("> ");
  terminal.type("not sent");
  terminal.wait_for("not sent");
  terminal.type("\x03");  // discards the line
  terminal.wait_for("> ");
  terminal.type("\x03");
  terminal.wait_for("Ctrl-C again leaves");
  terminal.wait_for("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(ChatTerminal, HelpListsAllCommands) {
  Terminal terminal(command(), environment());
  terminal.wait_for("> ");
  terminal.type("/help\r");
  const std::string help = terminal.wait_for("is written with //");
  for (const char* name : {"/regen", "/undo", "/reset", "/system", "/set", "/load", "/save", "/help", "/exit",
                           "\"\"\"", "Ctrl-C", "\\"})
    EXPECT_NE(help.find(name), std::string::npos) << name;
  terminal.type("/exit\r");
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace genesis::testing
