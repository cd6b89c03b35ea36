// Asks a server without sockets.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "models/serving/exchange.h"
#include "models/serving/json.h"
#include "models/serving/service.h"

namespace genesis::testing {

// Keeps an answer.
class KeptReply : public serving::Reply {
 public:
  void send(int status, serving::Headers headers, std::string body) override {
    const std::lock_guard lock(mutex_);
    keep(status, std::move(headers));
    body_ = std::move(body);
    is_over_ = true;
    changed_.notify_all();
  }
  void begin(int status, serving::Headers headers) override {
    const std::lock_guard lock(mutex_);
    keep(status, std::move(headers));
  }
  void write(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    body_ += bytes;
    changed_.notify_all();
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  void on_gone(std::function<void()> gone) override {
    const std::lock_guard lock(mutex_);
    gone_ = std::move(gone);
  }

  void leave() {  // behaves as a client that leaves
    const std::lock_guard lock(mutex_);
    if (gone_) gone_();
  }
  // Waits until the answer is complete, or has this text.
  void wait(const std::string& text = {}) {
    std::unique_lock lock(mutex_);
    const auto has_come = [&] {
      return is_over_ || (!text.empty() && body_.find(text) != std::string::npos);
    };
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), has_come)) << body_;
  }
  int status() const { return status_; }
  const std::string& body() const { return body_; }
  std::string header(const std::string& name) const {
    for (const auto& [key, value] : headers_)
      if (key == name) return value;
    return "";
  }

 private:
  void keep(int status, serving::Headers headers) {
    EXPECT_EQ(status_, 0) << "a second answer";
    status_ = status;
    headers_ = std::move(headers);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 0;
  serving::Headers headers_;
  std::string body_;
  bool is_over_ = false;
  std::function<void()> gone_;
};

inline std::shared_ptr<KeptReply> start(serving::Service& service, const serving::HttpRequest& request) {
  const auto reply = std::make_shared<KeptReply>();
  service.handle(request, reply);
  return reply;
}
inline std::shared_ptr<KeptReply> start(serving::Service& service, const std::string& path,
                                        const serving::Json& body) {
  return start(service, {"POST", path, body.dump(), {{"host", "localhost"}}});
}
// Returns the answer, and expects this status.
inline serving::Json ask(serving::Service& service, const std::string& path, const serving::Json& body,
                         int status = 200) {
  const auto reply = start(service, path, body);
  reply->wait();
  EXPECT_EQ(reply->status(), status) << reply->body();
  return serving::Json::parse(reply->body());
}
// Returns the events of a stream, without [DONE].
inline std::vector<serving::Json> events_of(const std::string& body) {
  std::vector<serving::Json> events;
  const std::string begin = "data: ";
  for (size_t at = 0; (at = body.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    const std::string data = body.substr(at, body.find('\n', at) - at);
    if (data != "[DONE]") events.push_back(serving::Json::parse(data));
  }
  return events;
}

}  // namespace genesis::testing
