# fathom_library(<folder> SOURCES <file>... [DEPS <target>...] [PRIVATE_DEPS <target>...])
#
# The static library fathom_<folder> of one folder of src/. DEPS are what its headers include: they repeat the arrows of
# docs/architecture.md (scripts/check_layers.py checks the includes). PRIVATE_DEPS are used by its .cpp files only.
function(fathom_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PRIVATE_DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fathom_library(${folder}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target fathom_${folder})
  add_library(${target} STATIC ${arg_SOURCES})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE fathom_warnings ${arg_PRIVATE_DEPS})
endfunction()
