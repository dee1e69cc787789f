terraform import sless_trigger.hello hello
