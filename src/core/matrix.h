// Two-dimensional, row-major views. They own nothing. A device view cannot be dereferenced by host code: only a
// backend may ask for device_ptr(), so model code that tries to read activations does not compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace fathom {

enum class Space : uint8_t { kHost, kDevice };

template <class U, class T>
concept MutableOf = std::is_same_v<const U, T> && !std::is_same_v<U, T>;

template <class T, Space S>
class Matrix {
 public:
  constexpr Matrix() = default;
  constexpr Matrix(T* data, int rows, int cols, std::ptrdiff_t ld) : data_(data), rows_(rows), cols_(cols), ld_(ld) {}
  constexpr Matrix(T* data, int rows, int cols) : Matrix(data, rows, cols, cols) {}

  // A view of mutable elements is also a view of const ones: implicit, as with std::span.
  template <MutableOf<T> U>
  constexpr Matrix(Matrix<U, S> other)  // NOLINT(google-explicit-constructor)
      : data_(other.data_), rows_(other.rows_), cols_(other.cols_), ld_(other.ld_) {}

  [[nodiscard]] constexpr int rows() const { return rows_; }
  [[nodiscard]] constexpr int cols() const { return cols_; }
  [[nodiscard]] constexpr std::ptrdiff_t ld() const { return ld_; }  // elements between the starts of two rows

  [[nodiscard]] constexpr Matrix slice_rows(int first, int count) const {
    return {data_ + first * ld_, count, cols_, ld_};
  }
  [[nodiscard]] constexpr Matrix slice_cols(int first, int count) const { return {data_ + first, rows_, count, ld_}; }

  [[nodiscard]] constexpr std::span<T> row(int r) const requires(S == Space::kHost) {
    return {data_ + r * ld_, static_cast<size_t>(cols_)};
  }
  [[nodiscard]] constexpr T* data() const requires(S == Space::kHost) { return data_; }
  [[nodiscard]] constexpr T* device_ptr() const requires(S == Space::kDevice) { return data_; }

 private:
  template <class U, Space V>
  friend class Matrix;

  T* data_ = nullptr;
  int rows_ = 0;
  int cols_ = 0;
  std::ptrdiff_t ld_ = 0;
};

template <class T>
using HostMat = Matrix<T, Space::kHost>;
template <class T>
using DeviceMat = Matrix<T, Space::kDevice>;

}  // namespace fathom
