#include "server/api_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

std::string_view open_ai_type(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kInvalidRequest:
    case ApiErrorKind::kContextLength:
    case ApiErrorKind::kNotFound:
    case ApiErrorKind::kMethodNotAllowed:
    case ApiErrorKind::kTooLarge:
      return "invalid_request_error";
    case ApiErrorKind::kAuthentication:
      return "authentication_error";
    case ApiErrorKind::kRateLimit:
      return "rate_limit_error";
    case ApiErrorKind::kOverloaded:
      return "overloaded_error";
    case ApiErrorKind::kInternal:
    case ApiErrorKind::kTimeout:
      break;
  }
  return "server_error";
}

std::string_view open_ai_code(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kContextLength:
      return "context_length_exceeded";
    case ApiErrorKind::kAuthentication:
      return "invalid_api_key";
    case ApiErrorKind::kRateLimit:
      return "rate_limit_exceeded";
    case ApiErrorKind::kTimeout:
      return "timeout";
    default:
      return open_ai_type(kind);
  }
}

std::string_view anthropic_type(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kInvalidRequest:
    case ApiErrorKind::kContextLength:
    case ApiErrorKind::kMethodNotAllowed:
      return "invalid_request_error";
    case ApiErrorKind::kAuthentication:
      return "authentication_error";
    case ApiErrorKind::kNotFound:
      return "not_found_error";
    case ApiErrorKind::kTooLarge:
      return "request_too_large";
    case ApiErrorKind::kRateLimit:
      return "rate_limit_error";
    case ApiErrorKind::kOverloaded:
      return "overloaded_error";
    case ApiErrorKind::kTimeout:
      return "timeout_error";
    case ApiErrorKind::kInternal:
      break;
  }
  return "api_error";
}

// The path of a field at the beginning of a message: "messages[2].role: expected ...".
std::string field_of(std::string_view message) {
  const size_t end = message.find(": ");
  const bool is_path =
      end != std::string_view::npos && end > 0 && std::ranges::all_of(message.substr(0, end), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '[' || c == ']' || c == '-';
      });
  return is_path ? std::string(message.substr(0, end)) : std::string{};
}

ApiErrorKind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadRequest:
      return ApiErrorKind::kInvalidRequest;
    case ErrorCode::kContextBound:
    case ErrorCode::kContextExhausted:
      return ApiErrorKind::kContextLength;
    default:
      return ApiErrorKind::kInternal;
  }
}

}  // namespace

ApiError context_length_error(size_t prompt_tokens, int max_context, std::string param) {
  // Both phrases are matched by clients that shorten the conversation then.
  return {ApiErrorKind::kContextLength,
          fmt::format("prompt is too long: {} tokens > {} maximum. This model's maximum context length is {} tokens.",
                      prompt_tokens, max_context, max_context),
          std::move(param)};
}

ApiError to_api_error(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& api_error) {
    return api_error;
  } catch (const Error& failure) {
    const ApiErrorKind kind = kind_of(failure.code());
    if (kind != ApiErrorKind::kInternal) {
      return {kind, failure.what(), field_of(failure.what())};
    }
    log_error(fmt::format("a request failed: {}", failure.what()));
  } catch (const std::exception& failure) {
    log_error(fmt::format("a request failed: {}", failure.what()));
  } catch (...) {
    log_error("a request failed, and nobody knows why");
  }
  return {ApiErrorKind::kInternal, "internal error; the server's log says more"};
}

std::string_view kind_name(ApiErrorKind kind) noexcept {
  switch (kind) {
    case ApiErrorKind::kInvalidRequest:
      return "invalid_request";
    case ApiErrorKind::kContextLength:
      return "context_length";
    case ApiErrorKind::kAuthentication:
      return "authentication";
    case ApiErrorKind::kNotFound:
      return "not_found";
    case ApiErrorKind::kMethodNotAllowed:
      return "method_not_allowed";
    case ApiErrorKind::kTooLarge:
      return "too_large";
    case ApiErrorKind::kRateLimit:
      return "rate_limit";
    case ApiErrorKind::kOverloaded:
      return "overloaded";
    case ApiErrorKind::kTimeout:
      return "timeout";
    case ApiErrorKind::kInternal:
      break;
  }
  return "internal";
}

int http_status(ApiErrorKind kind, ApiFamily family) noexcept {
  switch (kind) {
    case ApiErrorKind::kInvalidRequest:
    case ApiErrorKind::kContextLength:
      return 400;
    case ApiErrorKind::kAuthentication:
      return 401;
    case ApiErrorKind::kNotFound:
      return 404;
    case ApiErrorKind::kMethodNotAllowed:
      return 405;
    case ApiErrorKind::kTooLarge:
      return 413;
    case ApiErrorKind::kRateLimit:
      return 429;
    case ApiErrorKind::kOverloaded:
      return family == ApiFamily::kAnthropic ? 529 : 503;
    case ApiErrorKind::kTimeout:
      return 504;
    case ApiErrorKind::kInternal:
      break;
  }
  return 500;
}

std::string error_json(const ApiError& error, ApiFamily family, std::string_view request_id) {
  Json json;
  if (family == ApiFamily::kAnthropic) {
    json = {{"type", "error"},
            {"error", {{"type", anthropic_type(error.kind())}, {"message", error.what()}}},
            {"request_id", request_id}};
  } else {
    const Json param = error.param().empty() ? Json() : Json(error.param());
    json = {{"error",
             {{"message", error.what()},
              {"type", open_ai_type(error.kind())},
              {"param", param},
              {"code", open_ai_code(error.kind())}}}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse error_response(const ApiError& error, ApiFamily family, std::string_view request_id) {
  HttpResponse response;
  response.status = http_status(error.kind(), family);
  response.body = error_json(error, family, request_id);
  if (error.kind() == ApiErrorKind::kRateLimit || error.kind() == ApiErrorKind::kOverloaded) {
    response.headers.emplace_back("Retry-After", "1");
  }
  return response;
}

ApiFamily api_family(const HttpRequest& request) {
  const bool anthropic = request.path.starts_with("/v1/messages") || request.path.starts_with("/anthropic/") ||
                         !request.header("anthropic-version").empty();
  return anthropic ? ApiFamily::kAnthropic : ApiFamily::kOpenAi;
}

}  // namespace fathom
