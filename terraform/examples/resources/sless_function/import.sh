terraform import sless_function.hello hello
