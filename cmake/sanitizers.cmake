# FATHOM_SANITIZE: what to pass to -fsanitize=, for everything compiled in this build ("address,undefined").
set(FATHOM_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")
if(FATHOM_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FATHOM_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${FATHOM_SANITIZE})
endif()
