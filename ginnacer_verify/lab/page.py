def page(r, s):
    return "todo"
