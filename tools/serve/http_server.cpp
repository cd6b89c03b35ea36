#include "tools/serve/http_server.h"

#include <fmt/core.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <deque>
#include <optional>

#include "models/serving/api_error.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"
#include "tools/serve/http_request.h"

namespace genesis::tools {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::beast::error_code;
using serving::ApiError;
using serving::Headers;
using serving::HttpRequest;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// Returns the error that a client gets for a request that could not be read; empty if it cannot get any.
std::optional<ApiError> error_of_reading(const error_code& error, bool has_begun, const HttpLimits& limits) {
  if (error == http::error::body_limit)
    return ApiError(413, "invalid_request_error", "body_too_large",
                    fmt::format("the body has more than {} bytes", limits.body_bytes));
  if (error == http::error::header_limit)
    return ApiError(431, "invalid_request_error", "header_too_large",
                    fmt::format("the header has more than {} bytes", limits.header_bytes));
  if (error == asio::error::timed_out && has_begun)
    return ApiError(408, "invalid_request_error", "timeout",
                    fmt::format("the request was not complete after {} seconds", limits.request_seconds));
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
  if (error.category() == make_error_code(http::error::bad_method).category())
    return bad_request(error.message());
  return {};
}

}  // namespace

// All members of connections are used by the thread that runs `io` only. Handlers run in `workers`, and reach connections by posts.
class HttpServer::Impl {
 public:
  explicit Impl(HttpOptions options);
  void run();
  int port() const { return acceptor_.local_endpoint().port(); }

 private:
  class Connection;
  class SocketReply;
  void accept();
  void take(tcp::socket socket);
  void on_signal();
  void wait_for_end();
  void stop();

  const HttpOptions options_;
  int connections_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  asio::steady_timer timer_{io_};
  asio::thread_pool workers_{4};
  std::chrono::steady_clock::time_point deadline_;
  bool drains_ = false;
};

class HttpServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, tcp::socket socket)
      : server_(server), stream_(std::move(socket)), deadline_(server.io_) {
    ++server_.connections_;
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
  }
  ~Connection() { --server_.connections_; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  void read();
  void refuse(const ApiError& error);
  // The answer to request `number`. What belongs to an earlier one is dropped.
  void send(uint64_t number, int status, Headers headers, const std::string& body);
  void begin(uint64_t number, int status, Headers headers);
  void write(uint64_t number, std::string bytes);
  void end(uint64_t number);
  void on_gone(uint64_t number, std::function<void()> gone);

 private:
  void start_deadline();
  error_code reason(const error_code& error) const {
    return is_late_ ? error_code(asio::error::timed_out) : error;
  }
  void take_head(const error_code& error);
  void read_body();
  void handle();
  void watch();
  void put(std::string bytes);
  void write_more();
  void after_answer();
  void linger();
  void discard();
  void drop();
  bool is_current(uint64_t number) const { return number == number_ && is_answering_ && !is_closed_; }
  auto self() { return shared_from_this(); }
  const HttpLimits& limits() const { return server_.options_.limits; }

  Impl& server_;
  boost::beast::tcp_stream stream_;
  asio::steady_timer
      deadline_;  // for the request; that of the stream would close it before it gets an answer
  boost::beast::flat_buffer buffer_;
  std::optional<HttpParser> parser_;
  uint64_t number_ = 0;        // the request that is answered
  bool is_answering_ = false;  // its answer is not complete
  bool is_reading_ = false, is_late_ = false;
  bool is_chunked_ = false, closes_ = false, is_writing_ = false, is_closed_ = false;
  std::deque<std::string> out_;
  size_t out_bytes_ = 0;
  std::function<void()> gone_;
};

class HttpServer::Impl::SocketReply : public serving::Reply {
 public:
  SocketReply(asio::io_context& io, std::shared_ptr<Connection> connection, uint64_t number)
      : io_(io), connection_(std::move(connection)), number_(number) {}
  ~SocketReply() override {  // connections end in the thread that runs them
    asio::post(io_, [connection = std::move(connection_)] {});
  }

  void send(int status, Headers headers, std::string body) override {
    post([=, headers = std::move(headers), body = std::move(body)](Connection& connection,
                                                                   uint64_t number) mutable {
      connection.send(number, status, std::move(headers), body);
    });
  }
  void begin(int status, Headers headers) override {
    post([=, headers = std::move(headers)](Connection& connection, uint64_t number) mutable {
      connection.begin(number, status, std::move(headers));
    });
  }
  void write(std::string bytes) override {
    post([bytes = std::move(bytes)](Connection& connection, uint64_t number) mutable {
      connection.write(number, std::move(bytes));
    });
  }
  void end() override {
    post([](Connection& connection, uint64_t number) { connection.end(number); });
  }
  void on_gone(std::function<void()> gone) override {
    post([gone = std::move(gone)](Connection& connection, uint64_t number) mutable {
      connection.on_gone(number, std::move(gone));
    });
  }

 private:
  template <class Work>
  void post(Work work) {
    asio::post(io_, [work = std::move(work), connection = connection_, number = number_]() mutable {
      work(*connection, number);
    });
  }

  asio::io_context& io_;
  std::shared_ptr<Connection> connection_;
  const uint64_t number_;
};

void HttpServer::Impl::Connection::read() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits().header_bytes));
  parser_->body_limit(limits().body_bytes);
  stream_.expires_never();
  start_deadline();
  http::async_read_header(stream_, buffer_, *parser_, [self = self()](const error_code& error, size_t) {
    self->take_head(self->reason(error));
  });
}

void HttpServer::Impl::Connection::start_deadline() {
  is_reading_ = true;
  is_late_ = false;
  deadline_.expires_after(milliseconds(limits().request_seconds));
  deadline_.async_wait([self = self()](const error_code& cancelled) {
    if (cancelled || !self->is_reading_) return;
    self->is_late_ = true;
    error_code ignored;
    self->stream_.socket().cancel(ignored);
  });
}

void HttpServer::Impl::Connection::take_head(const error_code& error) {
  if (error) {
    const auto told = error_of_reading(error, buffer_.size() > 0 || parser_->got_some(), limits());
    return told ? refuse(*told) : drop();
  }
  try {
    check_head(facts_of(*parser_));
  } catch (const ApiError& known) {
    return refuse(known);
  }
  if (!boost::beast::iequals(parser_->get()[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue), [self = self()](const error_code& failed, size_t) {
    failed ? self->drop() : self->read_body();
  });
}

void HttpServer::Impl::Connection::read_body() {
  http::async_read(stream_, buffer_, *parser_, [self = self()](const error_code& error, size_t) {
    if (!error) return self->handle();
    const auto told = error_of_reading(self->reason(error), true, self->limits());
    told ? self->refuse(*told) : self->drop();
  });
}

void HttpServer::Impl::Connection::handle() {
  ++number_;
  is_reading_ = false;
  deadline_.cancel();
  is_answering_ = true;
  is_chunked_ = parser_->get().version() >= 11;
  closes_ = !parser_->get().keep_alive() || server_.drains_ || parser_->get().method() == http::verb::head;
  stream_.expires_never();
  auto request = std::make_shared<HttpRequest>(request_of(*parser_));
  parser_.reset();
  watch();
  asio::post(server_.workers_, [&server = server_, request,
                                reply = std::make_shared<SocketReply>(server_.io_, self(), number_)] {
    server.options_.handle(*request, reply);
  });
}

// Notices a client that leaves while its answer is made. One that sends its next request early is watched no longer.
void HttpServer::Impl::Connection::watch() {
  stream_.socket().async_wait(tcp::socket::wait_read,
                              [self = self(), number = number_](const error_code& error) {
                                if (error || !self->is_current(number)) return;
                                error_code unknown;
                                if (self->stream_.socket().available(unknown) == 0 || unknown) self->drop();
                              });
}

// Answers what is no request. The connection ends, because nobody knows where the next request begins.
void HttpServer::Impl::Connection::refuse(const ApiError& error) {
  ++number_;
  is_reading_ = false;
  deadline_.cancel();
  is_answering_ = closes_ = true;
  send(number_, error.status, {{"content-type", "application/json"}}, error.body());
}

void HttpServer::Impl::Connection::send(uint64_t number, int status, Headers headers,
                                        const std::string& body) {
  if (!is_current(number)) return;
  is_answering_ = false;
  gone_ = {};
  put(http_head(status, headers, content_length(body.size()), closes_) + body);
}

void HttpServer::Impl::Connection::begin(uint64_t number, int status, Headers headers) {
  if (!is_current(number)) return;
  closes_ = closes_ || !is_chunked_;
  put(http_head(status, headers, is_chunked_ ? "transfer-encoding: chunked\r\n" : "", closes_));
}

void HttpServer::Impl::Connection::write(uint64_t number, std::string bytes) {
  if (!is_current(number) || bytes.empty()) return;
  put(is_chunked_ ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes) : std::move(bytes));
}

void HttpServer::Impl::Connection::end(uint64_t number) {
  if (!is_current(number)) return;
  is_answering_ = false;
  gone_ = {};
  put(is_chunked_ ? "0\r\n\r\n" : "");
}

void HttpServer::Impl::Connection::on_gone(uint64_t number, std::function<void()> gone) {
  if (is_closed_ && number == number_) return gone();
  if (is_current(number)) gone_ = std::move(gone);
}

// Queues bytes. A whole answer may have any size, but the parts of a stream come only as fast as the client takes them.
void HttpServer::Impl::Connection::put(std::string bytes) {
  if (is_answering_ && out_bytes_ + bytes.size() > limits().unread_bytes) return drop();
  out_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  if (!is_writing_) write_more();
}

void HttpServer::Impl::Connection::write_more() {
  if (is_closed_) return;
  if (out_.empty()) {
    stream_.expires_never();
    return is_answering_ ? void() : after_answer();
  }
  is_writing_ = true;
  stream_.expires_after(milliseconds(limits().write_seconds));
  stream_.async_write_some(asio::buffer(out_.front()),
                           [self = self()](const error_code& error, size_t count) {
                             self->is_writing_ = false;
                             if (error || self->is_closed_) return self->drop();
                             self->out_bytes_ -= count;
                             self->out_.front().erase(0, count);
                             if (self->out_.front().empty()) self->out_.pop_front();
                             self->write_more();
                           });
}

void HttpServer::Impl::Connection::after_answer() {
  error_code ignored;
  stream_.socket().cancel(ignored);  // watch() has nothing more to notice
  closes_ || server_.drains_ ? linger() : read();
}

// Closes only the own direction first: a client that still sends would lose the answer otherwise.
void HttpServer::Impl::Connection::linger() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  buffer_.clear();
  stream_.expires_after(std::chrono::seconds(2));
  discard();
}

void HttpServer::Impl::Connection::discard() {
  stream_.async_read_some(buffer_.prepare(4096), [self = self()](const error_code& error, size_t) {
    error ? self->drop() : self->discard();
  });
}

void HttpServer::Impl::Connection::drop() {
  if (is_closed_) return;
  is_closed_ = true;
  is_reading_ = false;
  deadline_.cancel();
  error_code ignored;
  stream_.socket().close(ignored);
  out_.clear();
  if (const std::function<void()> gone = std::exchange(gone_, {})) gone();
}

HttpServer::Impl::Impl(HttpOptions options) : options_(std::move(options)) {
  try {
    const tcp::endpoint endpoint(asio::ip::make_address(options_.host), static_cast<uint16_t>(options_.port));
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
  } catch (const boost::system::system_error& error) {
    fail(
        "cannot listen on {} port {}: {}; --host is an address of this machine, and --port 0 takes any free "
        "port",
        options_.host, options_.port, error.code().message());
  }
}

void HttpServer::Impl::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      take(std::move(socket));
      return accept();
    }
    // Too many open files: some may be closed soon.
    timer_.expires_after(std::chrono::milliseconds(100));
    timer_.async_wait([this](const error_code& cancelled) {
      if (!cancelled) accept();
    });
  });
}

void HttpServer::Impl::take(tcp::socket socket) {
  const bool is_full = connections_ >= options_.limits.connections;
  const auto connection = std::make_shared<Connection>(*this, std::move(socket));
  if (!is_full) return connection->read();
  connection->refuse(
      {503, "server_error", "too_many_connections",
       fmt::format("{} connections are open, which are all that this server has", connections_ - 1)});
}

void HttpServer::Impl::on_signal() {
  signals_.async_wait([this](const error_code& error, int) {
    if (error) return;
    if (drains_) return stop();
    drains_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    options_.on_drain();
    deadline_ = std::chrono::steady_clock::now() + milliseconds(options_.drain_seconds);
    wait_for_end();
    on_signal();
  });
}

// Asks a few more times after the last request, so that its answer can be written.
void HttpServer::Impl::wait_for_end() {
  const bool is_late = std::chrono::steady_clock::now() > deadline_;
  if (is_late || (options_.is_idle() && connections_ == 0)) return stop();
  if (options_.is_idle())
    deadline_ = std::min(deadline_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
  timer_.expires_after(std::chrono::milliseconds(50));
  timer_.async_wait([this](const error_code& error) {
    if (!error) wait_for_end();
  });
}

void HttpServer::Impl::stop() {
  if (!options_.is_idle())
    log_warning("requests under way were dropped after {} seconds", options_.drain_seconds);
  io_.stop();
}

void HttpServer::Impl::run() {
  on_signal();
  accept();
  io_.run();
  workers_.join();
}

bool has_http_server() { return true; }

HttpServer::HttpServer(HttpOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }
void HttpServer::run() { impl_->run(); }

}  // namespace genesis::tools
