// Tests genesis-run serve over sockets: hostile clients, many connections, the end of a server, and OpenAI's own client.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/fuzz/mutate.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

class Client {
 public:
  explicit Client(int port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const sockaddr_in address = loopback(port);
    is_open_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_open() const { return is_open_; }
  void send(const std::string& text) const { (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Returns what comes until the server closes, or until `mark` has come.
  std::string receive(const std::string& mark = {}, int seconds = 30) const {
    std::string text;
    char buffer[65536];
    for (pollfd wait{socket_, POLLIN, 0}; ::poll(&wait, 1, seconds * 1000) > 0;) {
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
      if (!mark.empty() && text.find(mark) != std::string::npos) break;
    }
    return text;
  }

 private:
  int socket_;
  bool is_open_ = false;
};

std::string post(const std::string& path, const std::string& body, const std::string& more = {}) {
  return "POST " + path + " HTTP/1.1\r\nhost: localhost\r\ncontent-length: " + std::to_string(body.size()) +
         "\r\n" + more + "\r\n" + body;
}

class ServeProcess {
 public:
  explicit ServeProcess(const Words& more) : port_(free_port()) {
    const Words words = Words{"serve", "--port", std::to_string(port_), "--context", "256"} + more;
    thread_ = std::thread([this, words] {
      process_ =
          run_tool("genesis-run", words, {.kill_once = [this] { return stops_.load(); }, .signal = SIGTERM});
      has_ended_ = true;
    });
    for (; !has_ended_ && !Client(port_).is_open();)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ~ServeProcess() { end(); }

  int port() const { return port_; }
  std::string ask(const std::string& request, const std::string& mark = {}) const {
    const Client client(port_);
    client.send(request);
    return client.receive(mark);
  }
  bool is_healthy() const {
    return ask("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").find("200 OK") !=
           std::string::npos;
  }
  const Process& end() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
    return process_;
  }
  void stop() { stops_ = true; }

 private:
  const int port_;
  std::atomic<bool> stops_ = false, has_ended_ = false;
  Process process_;
  std::thread thread_;
};

class ServeTool : public ToolTest {};

const std::string kEndless = R"({"prompt": "a", "max_tokens": 200, "stream": true, "ignore_eos": true})";

TEST_F(ServeTool, HostileClientsEndInCleanErrors) {
  ServeProcess server(
      {tiny("qwen2.genesis"), "--max-body", "0.01", "--request-seconds", "3", "--connections", "12"});
  const std::string head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"no HTTP\r\n\r\n", "400"},
      {"GET /health HTTP/1.1\r\n\r\n", "400"},  // no host
      {"GET http://localhost/health HTTP/1.1\r\nhost: localhost\r\n\r\n", "400"},
      {"GET /health HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"},
      {head + "content-length: 1\r\ncontent-length: 2\r\n\r\n{}", "400"},
      {head + "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", "400"},
      {head + "transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n", "400"},
      {head + "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400"},
      {head + "transfer-encoding: chunked\r\n\r\nzz\r\n", "400"},
      {head + "content-length: -1\r\n\r\n", "400"},
      {head + "bad header\r\n\r\n", "400"},
      {head + "content-length: 99999999999\r\n\r\n", "413"},
      {post("/v1/completions", std::string(20000, ' ')), "413"},
      {"GET /" + std::string(20000, 'a') + " HTTP/1.1\r\n\r\n", "431"},
      {head + "content-length: 10\r\n\r\n{", "408"},  // sends no more
      {"GET /hea", "408"},
  };
  for (const auto& [request, status] : cases) {
    const std::string answer = server.ask(request);
    EXPECT_EQ(answer.substr(0, 13), "HTTP/1.1 " + status + " ") << request.substr(0, 200) << "\n" << answer;
    EXPECT_NE(answer.find("{\"error\":{\"message\":"), std::string::npos) << answer;
    EXPECT_NE(answer.find("connection: close"), std::string::npos) << answer;
  }
  EXPECT_TRUE(server.is_healthy());
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 12; ++i) idle.push_back(std::make_unique<Client>(server.port()));
  EXPECT_NE(server.ask("").find("503"), std::string::npos);
  idle.clear();
  while (!server.is_healthy()) {  // until the server has noticed
  }
  EXPECT_EQ(server.end().code, 0);
}

// A proxy may pass on as one request what a server takes for two, or the other way round.
TEST_F(ServeTool, SmuggledRequestsAreNotAnswered) {
  ServeProcess server({tiny("qwen2.genesis"), "--request-seconds", "3"});
  const std::string inner = "GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";
  const std::string head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n";
  const std::string length = "content-length: " + std::to_string(inner.size()) + "\r\n";
  const std::string refused[] = {
      head + length + "transfer-encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
      head + "transfer-encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + inner,
      head + "transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
      head + "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
      head + "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n" + inner,
      head + "content-length: +5\r\n\r\n" + inner,
      head + "content-length: 0x10\r\n\r\n" + inner,
      head + "content-length: 5, 6\r\n\r\n" + inner,
      head + "content-length\r\n : 5\r\n\r\n" + inner,
      head + "transfer-encoding: chunked\r\n\r\n-1\r\n" + inner,
      "GET /health HTTP/1.1\nhost: localhost\n\n" + inner,
      "GET /health HTTP/1.1\r\nhost: localhost\r\nx: a\rb\r\n\r\n" + inner,
  };
  for (const std::string& request : refused) {
    const std::string answer = server.ask(request);
    EXPECT_EQ(answer.substr(0, 13), "HTTP/1.1 400 ") << request << "\n" << answer;
    EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << request << "\n" << answer;
  }
  // A body is never read as a request, and many requests of one connection are answered in their order.
  const std::string body = server.ask(head + length + "connection: close\r\n\r\n" + inner);
  EXPECT_EQ(body.find("HTTP/1.1", 1), std::string::npos) << body;
  std::string many;
  for (int i = 0; i < 50; ++i)
    many += "GET /v1/models" + std::string(i % 2 ? "/x" : "") + " HTTP/1.1\r\nhost: localhost\r\n\r\n";
  many += "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
  const std::string answers = server.ask(many);
  int count = 0;
  for (size_t at = 0; (at = answers.find("HTTP/1.1 ", at)) != std::string::npos; ++at, ++count)
    EXPECT_EQ(answers.substr(at + 9, 3), count % 2 && count < 50 ? "404" : "200") << count;
  EXPECT_EQ(count, 51);
  EXPECT_EQ(server.end().code, 0);
}

TEST_F(ServeTool, DamagedRequestsEndInAnswers) {
  ServeProcess server({tiny("qwen2.genesis"), "--request-seconds", "0.2"});
  const std::string whole =
      post("/v1/completions", R"({"prompt": [1, 2], "max_tokens": 1})", "accept: */*\r\n");
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::string request = whole;
    Mutator(seed).damage(request);
    const std::string answer = server.ask(request);
    if (!answer.empty()) {
      EXPECT_EQ(answer.substr(0, 7), "HTTP/1.") << seed;
    }
  }
  EXPECT_TRUE(server.is_healthy());
  EXPECT_EQ(server.end().code, 0);
}

TEST_F(ServeTool, ClientsThatLeaveOrReadNothingHoldUpNobody) {
  ServeProcess server({tiny("qwen2.genesis"), "--parallel", "1", "--write-seconds", "0.5"});
  const Client deaf(server.port(), 1024);
  for (int i = 0; i < 3; ++i) {  // one that leaves at once, one in the middle
    const Client leaving(server.port());
    leaving.send(post("/v1/completions", kEndless));
    if (i > 0) leaving.receive("data: ");
  }
  // Its answer is larger than what the system keeps for it.
  deaf.send(post(
      "/v1/completions",
      R"({"prompt": "a", "max_tokens": 200, "n": 30, "logprobs": 20, "stream": true, "ignore_eos": true})"));
  const std::string answer = server.ask(post(
      "/v1/completions", R"({"prompt": "a", "max_tokens": 3, "ignore_eos": true})", "connection: close\r\n"));
  EXPECT_NE(answer.find("\"completion_tokens\":3"), std::string::npos) << answer;
  // Two requests on one connection, the second sent early; the first by an old client.
  const std::string get = "GET /health HTTP/1.1\r\nhost: localhost\r\n";
  const std::string both = server.ask(get + "\r\n" + get + "connection: close\r\n\r\n");
  EXPECT_NE(both.find("{\"status\":\"ok\"}HTTP/1.1 200 OK"), std::string::npos) << both;
  EXPECT_NE(server.ask("GET /health HTTP/1.0\r\n\r\n").find("{\"status\":\"ok\"}"), std::string::npos);
  EXPECT_NE(server.ask("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").find("</html>"),
            std::string::npos);
  EXPECT_EQ(server.end().code, 0);
}

TEST_F(ServeTool, SignalLetsRequestsEnd) {
  ServeProcess server({tiny("qwen2.genesis")});
  const Client client(server.port()), late(server.port());
  client.send(post("/v1/completions", kEndless));
  client.receive("data: ");
  server.stop();
  const std::string rest = client.receive();
  EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n")) << rest;
  EXPECT_EQ(server.end().code, 0);
  EXPECT_FALSE(Client(server.port()).is_open());
}

// Returns the number behind a name in the text of /metrics; -1 if there is none.
int64_t metric(const ServeProcess& server, const std::string& name) {
  const std::string text =
      server.ask("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
}

TEST_F(ServeTool, DraftsChangeNoText) {
  const std::string model = tiny("qwen2.genesis");
  const std::string bodies[] = {
      R"({"prompt": "abcabcabcabcabc", "max_tokens": 24, "temperature": 0, "ignore_eos": true})",
      R"({"prompt": "the the the the", "max_tokens": 24, "seed": 7, "ignore_eos": true, "n": 2})"};
  const auto choices = [](const std::string& answer) {
    const size_t begin = answer.find("\"choices\":");
    return begin == std::string::npos ? answer : answer.substr(begin, answer.find("\"usage\"") - begin);
  };
  std::vector<std::string> expected;
  for (const Words& more :
       {Words{}, Words{"--draft", "ngram"}, Words{"--draft", model, "--draft-tokens", "3"}}) {
    ServeProcess server(Words{model, "--parallel", "3"} + more);
    std::vector<std::string> made;
    for (const std::string& body : bodies)
      made.push_back(choices(server.ask(post("/v1/completions", body, "connection: close\r\n"))));
    if (more.empty()) expected = made;
    EXPECT_EQ(made, expected);
    EXPECT_NE(made[0].find("\"text\""), std::string::npos) << made[0];
    EXPECT_EQ(metric(server, "genesis_drafted_tokens_total") > 0, !more.empty());
    if (more.size() == 4) {  // the model drafts for itself
      EXPECT_GT(metric(server, "genesis_accepted_tokens_total"), 0);
    }
    EXPECT_EQ(server.end().code, 0);
  }
}

TEST_F(ServeTool, FlagsAreChecked) {
  const std::string model = tiny("qwen2.genesis");
  expect_usage_error(run_tool("genesis-run", {"serve", model, "--host", "0.0.0.0"}), {"--api-key-file"});
  write_text(path("keys"), "secret\n");
  expect_error(run_tool("genesis-run", {"serve", model, "--host", "nowhere", "--api-key-file", path("keys")}),
               {"cannot listen on nowhere"});
  write_text(path("keys"), "# none\n\n");
  expect_error(run_tool("genesis-run", {"serve", model, "--api-key-file", path("keys")}), {"has no key"});
  expect_error(run_tool("genesis-run", {"serve", model, "--memory", "1000"}), {"has no room for 1 texts"});
  expect_usage_error(run_tool("genesis-run", {"serve", model, "--adapter", "one"}), {"expected NAME=FOLDER"});
  expect_usage_error(run_tool("genesis-run", {"serve", model, "--adapter", "qwen2=x"}),
                     {"another adapter has the name 'qwen2'"});
  expect_error(run_tool("genesis-run", {"serve", model, "--adapter", "one=" + path("none")}),
               {"adapter_config.json"});
  const auto needs = expect_json(
      run_tool("genesis-run", {"serve", model, "--check", "--json", "--context", "256", "--parallel", "3"}));
  EXPECT_EQ(needs["texts"], 3);
  EXPECT_EQ(needs["cache_bytes"], 3 * needs["text_bytes"].get<int64_t>());
  const auto bytes = [&](const char* of) { return needs[of].get<int64_t>(); };
  EXPECT_GT(bytes("step_bytes"), 0);
  EXPECT_EQ(bytes("total_bytes"), bytes("weight_bytes") + bytes("cache_bytes") + bytes("step_bytes"));
  const std::string total = std::to_string(bytes("total_bytes") - bytes("step_bytes"));
  EXPECT_EQ(expect_json(run_tool("genesis-run", {"serve", model, "--check", "--json", "--context", "256",
                                                 "--memory", total}))["texts"],
            3);
  // Rows of this tiny model are smaller than the pages that more texts would share.
  expect_error(run_tool("genesis-run", {"serve", model, "--check", "--context", "256", "--memory", total,
                                        "--parallel", "4"}),
               {"no room for a text of 256 tokens beside 3 others"});
  const std::string encoder = path("bert.genesis");
  expect_ok(run_tool("genesis-build",
                     {GENESIS_SOURCE_ROOT "/tests/models/hugging_face/encoders/bert", "-o", encoder}));
  for (const char* flag : {"--memory", "--prefix-cache"})
    expect_usage_error(run_tool("genesis-run", {"serve", encoder, flag, "1MB"}), {flag, "writes no texts"});
  const std::string states = path("mamba2.genesis");
  expect_ok(
      run_tool("genesis-build", {"mamba2", "--set", "hidden_size=32", "--set", "num_hidden_layers=1", "--set",
                                 "mamba_n_heads=2", "--set", "mamba_d_head=32", "-o", states}));
  expect_error(run_tool("genesis-run", {"serve", states, "--prefix-cache", "1MB"}),
               {"--prefix-cache", "a state of the last token"});
}

// Returns a Python that has the package openai, installing it beside the build; empty if neither works.
std::string python_with_openai() {
  const std::string place = std::string(GENESIS_BUILD_ROOT) + "/openai";
  const auto works = [&] {
    return run_process({"python3", "-c", "import openai"}, {.environment = {"PYTHONPATH=" + place}}).code ==
           0;
  };
  if (works()) return place;
  const ProcessOptions limit = {.timeout_seconds = 60};
  run_process({"python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", place,
               "openai"},
              limit);
  return works() ? place : "";
}

// Makes a model that talks in a folder, and returns its path.
std::string talking_model(const fs::path& folder) {
  const std::string language = (folder / "chat.genesis").string(),
                    tokenizer = (folder / "tokenizer").string();
  fs::create_directory(tokenizer);
  fs::copy(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json", tokenizer + "/tokenizer.json");
  write_text(
      tokenizer + "/tokenizer_config.json",
      R"({"chat_template": "{% for m in messages %}{{ m.role + ': ' + m.content + '<|endoftext|>' }}{% endfor %}", "eos_token": "<|endoftext|>"})");
  expect_ok(run_tool("genesis-build", {"qwen2", "--set", "vocab_size=909", "--set", "hidden_size=16", "--set",
                                       "num_hidden_layers=1", "--set", "num_attention_heads=2", "--set",
                                       "num_key_value_heads=1", "--tokenizer", tokenizer, "-o", language}));
  return language;
}

TEST_F(ServeTool, TheClientOfTheExamplesGetsAnAnswer) {
  const ServeProcess server({talking_model(folder())});
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  const Process client =
      run_process({"python3", GENESIS_SOURCE_ROOT "/examples/server_client.py", url, "Hello"});
  EXPECT_EQ(client.code, 0) << client.err;
  EXPECT_TRUE(client.out.ends_with("\n[stop]\n") || client.out.ends_with("\n[length]\n")) << client.out;
}

TEST_F(ServeTool, OpenaiLibraryDrivesEveryRoute) {
  const std::string place = python_with_openai();
  if (place.empty())
    GTEST_SKIP() << "the package openai is not installed, and pip cannot install it from PyPI";
  const std::string encoder = path("bert.genesis"), ranker = path("ranks.genesis"),
                    language = talking_model(folder());
  expect_ok(run_tool("genesis-build",
                     {GENESIS_SOURCE_ROOT "/tests/models/hugging_face/encoders/bert", "-o", encoder}));
  expect_ok(run_tool("genesis-build",
                     {GENESIS_SOURCE_ROOT "/tests/models/hugging_face/encoders/bert_cross", "-o", ranker}));
  write_text(path("keys"), "sk-test\n");
  ServeProcess texts({language, "--api-key-file", path("keys"), "--name", "tiny"}), vectors({encoder}),
      ranks({ranker});
  const Process process = run_process(
      {"python3", GENESIS_SOURCE_ROOT "/tests/tools/serve/openai_client.py", std::to_string(texts.port()),
       std::to_string(vectors.port()), std::to_string(ranks.port())},
      {.environment = {"PYTHONPATH=" + place}});
  EXPECT_EQ(process.code, 0) << process.out << process.err;
  EXPECT_EQ(process.out, "ok\n");
}

TEST_F(ServeTool, APersonTalksWithThePage) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "no /usr/bin/python3, which python3-selenium is for";
  const ServeProcess server({talking_model(folder())});
  const Process process =
      run_process({"/usr/bin/python3", GENESIS_SOURCE_ROOT "/tests/tools/serve/chat_page.py",
                   "http://127.0.0.1:" + std::to_string(server.port())});
  if (process.out.starts_with("missing")) GTEST_SKIP() << process.out;
  EXPECT_EQ(process.code, 0) << process.out << process.err;
  EXPECT_EQ(process.out, "ok\n");
}

}  // namespace
}  // namespace genesis::testing
