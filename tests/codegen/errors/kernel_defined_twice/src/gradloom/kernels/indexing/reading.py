def take(self):
    return self
