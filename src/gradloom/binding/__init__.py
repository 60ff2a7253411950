"""The last step of `import gradloom`: operators become methods, and late-bound functions are provided to the core."""
