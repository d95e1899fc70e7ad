# fathom_warnings: the warnings every target of ours compiles with. They become errors where
# CMAKE_COMPILE_WARNING_AS_ERROR is set (preset `ci`). -Wconversion means the same with both compilers: clang's would also
# complain of every int used as an index.
add_library(fathom_warnings INTERFACE)
target_compile_options(fathom_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow>
  # g++ 12 warns of "text" + std::to_string(n) inside the standard library (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
