#include "grammar/constraint.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fathom {
namespace {

void set_bit(std::vector<uint64_t>& mask, TokenId token, bool value) {
  const uint64_t bit = uint64_t{1} << (static_cast<size_t>(token) % 64);
  uint64_t& word = mask[static_cast<size_t>(token) / 64];
  word = value ? word | bit : word & ~bit;
}

}  // namespace

ConstraintState::ConstraintState(GenerationConstraint constraint, std::span<const TokenId> stop_tokens)
    : constraint_(std::move(constraint)), stop_tokens_(stop_tokens.begin(), stop_tokens.end()) {
  if (!constraint_.trigger) {
    matcher_.emplace(constraint_.grammar->begin());
  }
}

std::span<const uint64_t> ConstraintState::allowed() {
  if (matcher_) {
    constraint_.grammar->fill_mask(*matcher_, mask_);
    for (const TokenId token : stop_tokens_) {
      set_bit(mask_, token, constraint_.may_end_early || matcher_->complete());
    }
    return mask_;
  }
  const GenerationConstraint::Trigger& trigger = *constraint_.trigger;
  if (!trigger.required && trigger.forbidden_before.empty()) {
    return {};
  }
  mask_.assign((constraint_.grammar->vocab() + 63) / 64, ~uint64_t{0});
  for (const TokenId token : trigger.forbidden_before) {
    set_bit(mask_, token, false);
  }
  if (trigger.required && !constraint_.may_end_early) {
    for (const TokenId token : stop_tokens_) {
      set_bit(mask_, token, false);
    }
  }
  return mask_;
}

void ConstraintState::accept(TokenId token) {
  if (matcher_) {
    const bool fits = constraint_.grammar->accept(*matcher_, token);
    FATHOM_CHECK(fits, "a token that the constraint does not allow");
  } else {
    wait_for_trigger(token);
  }
}

void ConstraintState::wait_for_trigger(TokenId token) {
  const GenerationConstraint::Trigger& trigger = *constraint_.trigger;
  if (token == trigger.token && (!trigger.opens_line || line_ == "<" || line_ == "\n<")) {
    matcher_.emplace(constraint_.grammar->begin());
    return;
  }
  const std::string_view text = constraint_.grammar->text(token);
  line_ = text.empty() ? "" : line_.append(text);
  line_.erase(0, line_.size() - std::min<size_t>(line_.size(), 2));
}

bool ConstraintState::finished() const { return matcher_ && matcher_->complete() && matcher_->exhausted(); }

}  // namespace fathom
