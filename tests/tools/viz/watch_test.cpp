// Tests genesis-viz watch: a page of growing runs, only for this machine and for users who know its address.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"
#include "tests/tools/viz/page.h"

namespace genesis::testing {
namespace {

// Connects to a server on this machine; returns -1 if it accepts no connection.
int connected(int port) {
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return connection;
  ::close(connection);
  return -1;
}

// Returns the answer of a server to `request`, head and body.
std::string ask(int port, const std::string& request) {
  const int connection = connected(port);
  std::string answer;
  if (connection >= 0) {
    EXPECT_EQ(::send(connection, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    char piece[4096];
    for (ssize_t count; (count = ::recv(connection, piece, sizeof piece, 0)) > 0;)
      answer.append(piece, static_cast<size_t>(count));
  }
  ::close(connection);
  return answer;
}

class VizWatch : public ToolTest {
 protected:
  // Runs the server until it is killed; `test` gets the port and the path of the page.
  template <class Test>
  void watch(const std::string& path, const Test& test) {
    const std::string said = this->path("said.json");
    std::thread server([&] {
      run_process({"sh", "-c",
                   "exec " + tool_path("genesis-viz") + " watch " + path + " --json > " + said +
                       " & echo $! > " + said + ".pid; wait"});
    });
    std::string text;
    for (int i = 0; i < 20 * kHangs && text.find('\n') == std::string::npos; ++i) {
      ::usleep(50000);
      text = fs::exists(said) ? read_text(said) : "";
    }
    const std::string url = try_parse_json_text(text).value("url", "http://127.0.0.1:1/none/");
    const size_t port = url.rfind(':'), slash = url.find('/', port);
    EXPECT_EQ(url.substr(0, port), "http://127.0.0.1");
    test(std::stoi(url.substr(port + 1, slash - port - 1)), url.substr(slash));
    run_process({"sh", "-c", "kill $(cat " + said + ".pid)"});
    server.join();
  }
  static std::string get(int port, const std::string& path) {
    return ask(port, "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n");
  }
  static std::string body(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }
  static std::string status(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }
};

TEST_F(VizWatch, ServesAPageAndTheRowsThatCome) {
  fs::create_directories(path("run"));
  write_text(path("run/metrics.jsonl"),
             "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":null}\n{\"step\":3,\"lo");
  watch(path("run"), [&](int port, const std::string& root) {
    const std::string page = get(port, root);
    EXPECT_EQ(status(page), "HTTP/1.1 200 OK");
    EXPECT_NE(page.find("connect-src 'self'"), std::string::npos);
    const nlohmann::json data = parse_json_text(data_of_page(body(page)));
    EXPECT_EQ(data["runs"][0]["name"], "run");
    EXPECT_EQ(data["runs"][0]["rows"], 2);
    EXPECT_EQ(data["live"]["path"].get<std::string>() + "/", root);
    std::ofstream(path("run/metrics.jsonl"), std::ios::app) << "ss\":2.5}\n";
    const nlohmann::json rows = parse_json_text(body(get(port, root + "rows?run=0&from=2")));
    EXPECT_EQ(rows["rows"], parse_json_text("[{\"step\":3,\"loss\":2.5}]"));
    EXPECT_EQ(rows["next"], 3);
    EXPECT_EQ(rows["reset"], false);
    // A run that continues from a checkpoint writes a new file.
    write_text(path("new"), "{\"step\":1,\"loss\":7}\n");
    fs::rename(path("new"), path("run/metrics.jsonl"));
    const nlohmann::json again = parse_json_text(body(get(port, root + "rows?run=0&from=3")));
    EXPECT_EQ(again["reset"], true);
    EXPECT_EQ(again["rows"][0]["loss"], 7);
  });
}

TEST_F(VizWatch, ShowsNobodyElseAnything) {
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":3}\n");
  watch(path("m.jsonl"), [&](int port, const std::string& root) {
    EXPECT_GE(root.size(), 34u);
    EXPECT_EQ(status(get(port, "/")), "HTTP/1.1 404 Not Found");
    EXPECT_EQ(status(get(port, root.substr(0, root.size() - 2) + "x/")), "HTTP/1.1 404 Not Found");
    EXPECT_EQ(status(get(port, root + "../../etc/passwd")), "HTTP/1.1 404 Not Found");
    EXPECT_EQ(status(ask(port, "GET " + root + " HTTP/1.1\r\nHost: evil.example\r\n\r\n")),
              "HTTP/1.1 421 Misdirected Request");
    EXPECT_EQ(status(ask(port, "GET " + root + " HTTP/1.1\r\n\r\n")), "HTTP/1.1 421 Misdirected Request");
    EXPECT_EQ(status(ask(port, "POST " + root + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")),
              "HTTP/1.1 405 Method Not Allowed");
    EXPECT_EQ(status(ask(port, "\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    EXPECT_EQ(status(ask(port, std::string(40000, 'x'))), "HTTP/1.1 400 Bad Request");
    EXPECT_EQ(status(get(port, root + "rows?run=99")), "HTTP/1.1 500 Internal Server Error");
    EXPECT_EQ(status(get(port, root + "rows?run=-1&from=99999999999999999999")), "HTTP/1.1 200 OK");
    EXPECT_EQ(status(get(port, root)), "HTTP/1.1 200 OK");
  });
}

// Slow clients are served concurrently: a hundred that send half a request do not delay others. One after another
// they would take 500 seconds.
TEST_F(VizWatch, SlowClientsKeepNobodyWaiting) {
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":3}\n");
  watch(path("m.jsonl"), [&](int port, const std::string& root) {
    std::vector<int> slow;
    for (int i = 0; i < 100; ++i) {
      slow.push_back(connected(port));
      ::send(slow.back(), "GET / HT", 8, MSG_NOSIGNAL);
    }
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(status(get(port, root)), "HTTP/1.1 200 OK");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(250));
    for (const int connection : slow) ::close(connection);
  });
}

// The header has the same policy as the page's own <meta>, so that a browser applies it before it reads the page.
TEST_F(VizWatch, NamesAContentSecurityPolicy) {
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":3}\n");
  watch(path("m.jsonl"), [&](int port, const std::string& root) {
    const std::string page = get(port, root), head = page.substr(0, page.find("\r\n\r\n"));
    const std::string mark = "Content-Security-Policy: ";
    ASSERT_NE(head.find(mark), std::string::npos);
    const size_t from = head.find(mark) + mark.size();
    const std::string policy = head.substr(from, head.find("\r\n", from) - from);
    EXPECT_TRUE(policy.starts_with("default-src 'none'; ")) << policy;
    EXPECT_NE(policy.find("connect-src 'self'"), std::string::npos) << policy;
    EXPECT_TRUE(policy.ends_with("frame-ancestors 'none'")) << policy;
    EXPECT_NE(body(page).find(policy.substr(0, policy.rfind(';'))), std::string::npos);
    for (const std::string& path : {root, root + "rows?run=0", std::string("/none")}) {
      const std::string answer = get(port, path);
      EXPECT_NE(answer.find("X-Content-Type-Options: nosniff"), std::string::npos) << path;
      EXPECT_NE(answer.find("Content-Security-Policy: default-src 'none'"), std::string::npos) << path;
    }
  });
}

std::string rows_of(int from, int to, double loss) {
  std::string text;
  for (int step = from; step <= to; ++step)
    text += "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(loss) + "}\n";
  return text;
}

// A run that starts again in the same file is another run, however long the file has become in the meantime.
TEST_F(VizWatch, ARestartedFileIsAnotherRun) {
  write_text(path("m.jsonl"), rows_of(1, 3, 3));
  watch(path("m.jsonl"), [&](int port, const std::string& root) {
    const auto rows = [&](const std::string& query) {
      return parse_json_text(body(get(port, root + "rows?run=0&" + query)));
    };
    EXPECT_EQ(rows("from=0&generation=0")["next"], 3);
    write_text(path("m.jsonl"), rows_of(1, 9, 5));
    const nlohmann::json again = rows("from=3&generation=0");
    EXPECT_EQ(again["reset"], true);
    EXPECT_EQ(again["rows"].size(), 9u);
    EXPECT_EQ(again["rows"][2]["loss"], 5);
    EXPECT_EQ(again["generation"], 1);
    EXPECT_EQ(rows("from=9&generation=1")["reset"], false);
    // Another program continues from a checkpoint and appends to its file.
    std::ofstream(path("m.jsonl"), std::ios::app) << rows_of(5, 6, 7);
    const nlohmann::json resumed = rows("from=9&generation=1");
    EXPECT_EQ(resumed["reset"], true);
    EXPECT_EQ(resumed["rows"].size(), 6u);
    EXPECT_EQ(resumed["rows"][3]["loss"], 5);
    EXPECT_EQ(resumed["rows"][4]["loss"], 7);
  });
}

// Opening a pipe would wait for a writer that never comes.
TEST_F(VizWatch, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(run_tool("genesis-viz", {"watch", path("pipe")}), {"pipe", "not a regular file"});
  expect_error(run_tool("genesis-viz", {"--loss", path("pipe"), "-o", path("x.html")}),
               {"pipe", "not a regular file"});
  write_text(path("m.jsonl"), rows_of(1, 2, 3));
  watch(path("m.jsonl"), [&](int port, const std::string& root) {
    fs::remove(path("m.jsonl"));
    ASSERT_EQ(::mkfifo(path("m.jsonl").c_str(), 0600), 0);
    const std::string answer = get(port, root + "rows?run=0&from=2");
    EXPECT_EQ(status(answer), "HTTP/1.1 500 Internal Server Error");
    EXPECT_NE(body(answer).find("not a regular file"), std::string::npos) << answer;
  });
}

TEST_F(VizWatch, SaysWhatIsMissing) {
  expect_error(run_tool("genesis-viz", {"watch", path("none")}), {"none", "no such file"});
  fs::create_directories(path("empty"));
  expect_error(run_tool("genesis-viz", {"watch", path("empty")}),
               {"no metrics", "genesis-run train --metrics"});
  expect_usage_error(run_tool("genesis-viz", {"watch", path("none"), "--port", "70000"}),
                     {"--port", "65535"});
}

}  // namespace
}  // namespace genesis::testing
