"""streamgp in other libraries' clothes; each module needs the library that it is named after."""
