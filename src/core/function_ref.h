// A reference to a callable, type-erased without owning or allocating: two pointers. It must not outlive the callable.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace fathom {

template <class F, class Self, class R, class... Args>
concept ReferableBy = !std::is_same_v<std::remove_cvref_t<F>, Self> && std::is_invocable_r_v<R, F&, Args...>;

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  // Implicit, so that a lambda can be passed where a FunctionRef is taken.
  template <ReferableBy<FunctionRef, R, Args...> F>
  FunctionRef(F&& callable) noexcept  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace fathom
