// What a client is told when its request fails, in the shape of the API it speaks.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "server/http.h"

namespace fathom {

enum class ApiFamily : uint8_t { kOpenAi, kAnthropic };

enum class ApiErrorKind : uint8_t {
  kInvalidRequest,  // 400
  kContextLength,   // 400; agents shorten the conversation on it
  kAuthentication,  // 401
  kNotFound,        // 404
  kMethodNotAllowed,
  kTooLarge,    // 413
  kRateLimit,   // 429: the queue is full
  kInternal,    // 500
  kOverloaded,  // 503, Anthropic 529: cannot serve at present
  kTimeout,     // 504: past the request's deadline
};

class ApiError : public std::runtime_error {
 public:
  // `param`: the field at fault, as "messages[2].role"; may be empty.
  ApiError(ApiErrorKind kind, const std::string& message, std::string param = {})
      : std::runtime_error(message), kind_(kind), param_(std::move(param)) {}

  [[nodiscard]] ApiErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& param() const noexcept { return param_; }

 private:
  ApiErrorKind kind_;
  std::string param_;
};

// The prompt does not fit: `param` is where the API keeps the conversation ("messages", "input", "prompt").
[[nodiscard]] ApiError context_length_error(size_t prompt_tokens, int max_context, std::string param);

// Any exception as what the client is told. Error kBadRequest keeps its text, whose beginning up to ": " names the
// field; what is not the client's fault becomes kInternal.
[[nodiscard]] ApiError to_api_error(const std::exception_ptr& error) noexcept;

[[nodiscard]] std::string_view kind_name(ApiErrorKind kind) noexcept;  // for logs and metrics
[[nodiscard]] int http_status(ApiErrorKind kind, ApiFamily family) noexcept;
// The body of an error response; in a stream, what follows "data: ".
[[nodiscard]] std::string error_json(const ApiError& error, ApiFamily family, std::string_view request_id);
[[nodiscard]] HttpResponse error_response(const ApiError& error, ApiFamily family, std::string_view request_id);

// The API that a request speaks, told by its path and headers.
[[nodiscard]] ApiFamily api_family(const HttpRequest& request);

}  // namespace fathom
